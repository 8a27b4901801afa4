"""The page of a bench, drawn from planted measurements."""

import json
import re
from dataclasses import replace
from html import unescape
from itertools import pairwise

import pytest

from fencepost.bench.document import as_json
from fencepost.bench.figures import Measurement
from fencepost.bench.plan import BenchRequest, MeasurementKind
from reports.charts.lines import ChartSeries, Dot, lines
from reports.console import bench_lines
from reports.html.bench import draw
from workloads.model.policy import Delivery

REQUEST = BenchRequest(
    clients=("librdkafka",), sizes=(1, 100, 10_000), partitions=(6, 24), workers=(1, 3), rounds=2
)
ABOUT = {
    "started": "2026-11-24T10:00:00+00:00",
    "seed": 7,
    "command": "fencepost bench --seed 7",
    "machine": {"cores": 2},
    "versions": {"kafka": "4.3.1"},
    "cluster": {"brokers": 3, "latency_share": 0.4, "settings": {"replica.fetch.wait.max.ms": "20"}},
}
SLOWDOWN = {Delivery.AT_LEAST_ONCE: 1.0, Delivery.IDEMPOTENT: 1.1, Delivery.TRANSACTIONS: 2.0}


def planted(request: BenchRequest = REQUEST) -> list[Measurement]:
    """Return measurements in which transactions take twice as long, except the largest, which cost nothing."""
    measurements = []
    for number in range(request.rounds):
        for point in request.points():
            factor = 1.0 if point.txn_size == 10_000 else SLOWDOWN[point.delivery]
            measurement = Measurement(point, number, steps_ms={"poll": 0.1, "flush": 4.0, "rest": 1.0})
            if point.kind is MeasurementKind.THROUGHPUT:
                inputs = 100.0 * point.txn_size / factor
                measurement = replace(measurement, inputs_per_s=inputs, txns_per_s=inputs / point.txn_size)
            else:
                measurement = replace(measurement, rate=50.0, latencies_ms=[5.0 * factor] * 200)
            measurements.append(measurement)
    return measurements


def figures(measured: list[Measurement] | None = None, cut_short: str = ""):
    return json.loads(
        json.dumps(
            as_json(REQUEST, planted() if measured is None else measured, cut_short=cut_short, context=ABOUT)
        )
    )


def test_the_page_has_ratios_plots_and_answers():
    page = draw(figures())
    assert page.count("<svg") >= 8
    assert "0.50 <span" in page
    assert "larger transactions amortise the cost" in page
    assert "refuted" in page
    assert "depends" in page
    assert "replica.fetch.wait.max.ms" in page


def test_the_page_loads_no_other_file():
    page = draw(figures())
    assert not re.findall(r"""(?:src|href)=["'](?!#)""", page)
    assert "default-src 'none'" in unescape(page)
    assert " style=" not in page


def test_a_bench_that_was_cut_short_says_so():
    complete, partial = draw(figures()), draw(figures(planted()[:7], "interrupted"))
    assert "Cut short" not in complete
    planned = REQUEST.rounds * len(REQUEST.points())
    assert f"Cut short: 7 of {planned} measurements" in partial


def test_one_measurement_is_enough_for_a_page():
    bench = figures(planted()[:1], "interrupted")
    assert "not measured" in draw(bench)
    assert {claim["answer"] for claim in bench["claims"]} == {"not measured"}


def test_the_command_line_is_escaped():
    page = draw({**figures(), "command": "fencepost bench --set 'broker.x=<script>'"})
    assert "<script>" not in page


def test_every_ratio_has_its_baseline_and_one_value_for_each_round():
    for point in figures()["points"]:
        for ratio in point["ratios"].values():
            assert ratio["min"] <= ratio["median"] <= ratio["max"]
            assert len(ratio["rounds"]) == REQUEST.rounds
            assert ratio["to"]["delivery"] == ("at-least-once" if point["journal"] else point["delivery"])


def test_the_console_shows_the_cost_and_the_answers(tmp_path):
    text = "\n".join(
        bench_lines(figures(cut_short="interrupted"), tmp_path / "bench.html", "fencepost bench")
    )
    assert "throughput x 0.50" in text
    assert "cut short" in text
    assert "bench.html" in text


def test_a_chart_without_points_is_none_and_one_point_is_drawn():
    assert lines("a", 900, "t", "ms", [ChartSeries("x", "first", [])]) is None
    drawn = lines("a", 900, "t", "ms", [ChartSeries("x", "first", [Dot(1, 5.0, 5.0, 5.0)])])
    assert drawn is not None
    assert "nan" not in drawn


@pytest.mark.parametrize("width", [920, 350])
def test_the_names_of_lines_do_not_overlap(width: int):
    series = [ChartSeries(name, "first", [Dot(1, 5.0, 4.0, 6.0), Dot(10, 5.0, 4.0, 6.0)]) for name in "abc"]
    drawn = str(lines("a", width, "t", "ms", series))
    heights = [float(y) for y in re.findall(r'y="([\d.]+)" class="line-name', drawn)]
    assert all(below - above >= 14 for above, below in pairwise(heights))
