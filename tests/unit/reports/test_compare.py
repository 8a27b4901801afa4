"""Two runs, or two suites, next to each other."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from harness.common.errors import UnreadableInput
from harness.results.recovery import Liveness
from harness.results.suite import CellState
from harness.results.verdict import Validity
from reports.compare.comparison import Comparison, compare
from reports.compare.sides import read_run, read_suite
from reports.compare.text import lines
from reports.compare.values import ComparedRow, ValueRange
from reports.html.compare import draw
from tests.support.compared_runs import (
    fault,
    findings,
    seeded_cell,
    verdict,
    write_log,
    write_run,
    write_suite,
)
from tests.support.synthetic_store import MS, write_table

HOSTILE = "<script>alert(1)</script>\u202e\x00" + "k" * 5_000


def of_runs(folder: Path, a: dict[str, Any], b: dict[str, Any]) -> Comparison:
    """Write two runs with these arguments of `write_run`, and compare them."""
    for name, arguments in (("a", a), ("b", b)):
        write_run(folder / name, **{"verdict_of_run": verdict(), **arguments})
    return compare(*(read_run(name, folder / name) for name in ("a", "b")))


def of_suites(folder: Path) -> Comparison:
    return compare(*(read_suite(name, folder / name) for name in ("a", "b")))


def row(comparison: Comparison, name: str, table: str = "", pair: int = 0) -> ComparedRow:
    """The only row of this name in the tables whose title has `table` in it."""
    tables = [*comparison.pairs[pair].tables, *comparison.differences]
    (found,) = [row for each in tables if table in each.title for row in each.rows if row.name == name]
    return found


def words(found: ComparedRow) -> tuple[str, str]:
    return found.a, found.b


@pytest.fixture
def suites(tmp_path: Path) -> Callable[[], Comparison]:
    """Two suites of the same three seeds, on two versions of Kafka. The commits of B take ten times as long."""
    for name, kafka, factor in (("a", "3.9.2", 1), ("b", "4.4.0", 10)):
        cells = [seeded_cell(seed, options={"kafka": kafka, "time-limit": 30.0}) for seed in (1, 2, 3)]
        runs = {seed: {"commits": [(12.0, 10.0 * seed * factor)]} for seed in (1, 2, 3)}
        write_suite(tmp_path / name, *cells, runs=runs, name=f"kafka-{kafka}")
    return lambda: of_suites(tmp_path)


def test_rates_count_only_what_was_committed_under_load(tmp_path: Path) -> None:
    commits = [(9.9, 5.0), (10.0, 5.0), (19.9, 5.0), (20.0, 5.0), (25.0, 5.0)]
    comparison = of_runs(tmp_path, {"commits": commits}, {"commits": commits[:2]})
    assert words(row(comparison, "committed transactions")) == ("0.2 per second", "0.1 per second")
    assert words(row(comparison, "committed records")) == ("0.4 per second", "0.2 per second")
    assert row(comparison, "committed records").ratio == pytest.approx(0.5)


def test_latency_before_the_first_fault_leaves_out_later_commits(tmp_path: Path) -> None:
    commits = [(11.0, 10.0), (12.0, 20.0), (14.9, 30.0), (15.1, 4000.0), (25.0, 5000.0)]
    faults = [fault(start_s=18.0), fault("pause-worker", start_s=15.0)]
    comparison = of_runs(tmp_path, {"commits": commits, "verdict_of_run": verdict(faults=faults)}, {})
    assert row(comparison, "median before the first fault").a == "20 ms"
    assert row(comparison, "99 % before the first fault").a == "30 ms"
    assert row(comparison, "median of the whole run").a == "30 ms"
    assert row(comparison, "99 % of the whole run").a == "5 s"


def test_only_commits_count(tmp_path: Path) -> None:
    of_runs(tmp_path, {}, {})
    failed = [
        {"op": n, "stage": "shop", "f": "txn", "asked": asked, "outcome": outcome}
        | {"call_ns": 11_000 * MS, "commit_ns": 11_000 * MS, "return_ns": 14_000 * MS}
        for n, (asked, outcome) in enumerate(
            [("abort", "ok"), ("commit", "fail"), ("commit", "info"), ("commit", "ok")]
        )
    ]
    write_table(tmp_path / "b", "ops", failed)
    write_table(tmp_path / "b", "sends", [{"op": n, "tp": 0} for n in range(4)])
    comparison = compare(*(read_run(name, tmp_path / name) for name in ("a", "b")))
    assert row(comparison, "committed transactions").b == "0.1 per second"
    assert row(comparison, "committed records").b == "0.1 per second"
    failed[3]["return_ns"] = 11_004 * MS
    write_table(tmp_path / "b", "ops", failed)
    assert read_run("b", tmp_path / "b").runs[0].figures.known["p99_ms"] == 4


@pytest.mark.parametrize("one_clock", [True, False])
def test_times_of_brokers_with_another_clock_give_no_rate(tmp_path: Path, one_clock: bool) -> None:
    """A duration is a difference of two times of brokers, so it is known."""
    stage = {"name": "bill", "journaled": False, "writes": ["out"], "transactional_ids": {"bill-1": "b-1"}}
    without_journals = {
        "workload": {"name": "bill", "stages": [stage]},
        "run": {"wall_ms_at_zero": 0.0, "promises": {"one_clock": one_clock}},
    }
    of_runs(tmp_path, {}, without_journals)
    write_log(tmp_path / "b", (12.0, 30.0), (16.0, 50.0))
    comparison = compare(*(read_run(name, tmp_path / name) for name in ("a", "b")))
    assert row(comparison, "committed transactions").b == ("0.2 per second" if one_clock else "not known")
    assert row(comparison, "99 % before the first fault").b == ("30 ms" if one_clock else "not known")
    assert row(comparison, "99 % of the whole run").b == "50 ms"
    assert any("do not compare them" in note for note in comparison.notes)
    assert any(note.startswith("B: the brokers' clocks") for note in comparison.notes) is not one_clock


def test_without_faults_every_commit_is_before_the_first_fault(tmp_path: Path) -> None:
    comparison = of_runs(tmp_path, {"verdict_of_run": verdict(faults=[])}, {})
    assert row(comparison, "99 % before the first fault").a == "40 ms"


def test_each_side_keeps_its_own_values(tmp_path: Path) -> None:
    comparison = of_runs(
        tmp_path,
        {"commits": [(11.0, 10.0)], "options": {"kafka": "3.9.2"}, "versions": {"kafka": "3.9.2"}},
        {
            "commits": [(11.0, 30.0)],
            "options": {"kafka": "4.4.0"},
            "versions": {"kafka": "4.4.0"},
            "verdict_of_run": verdict(
                Validity.INVALID, anomalies={"duplicate": findings(3)}, faults=[fault(target="broker 3")]
            ),
        },
    )
    assert (comparison.a.path, comparison.b.path) == ("a", "b")
    assert words(row(comparison, "verdict")) == ("valid", "invalid")
    assert words(row(comparison, "duplicate")) == ("none", "3")
    assert words(row(comparison, "median of the whole run")) == ("10 ms", "30 ms")
    assert row(comparison, "median of the whole run").ratio == pytest.approx(3)
    assert words(row(comparison, "fault")) == ("broker 2 at 15.0 s", "broker 3 at 15.0 s")
    assert words(row(comparison, "kafka", "Versions")) == ("3.9.2", "4.4.0")
    assert words(row(comparison, "kafka", "Settings")) == ("3.9.2", "4.4.0")


def test_an_anomaly_that_was_not_looked_for_is_not_known(tmp_path: Path) -> None:
    found = {"lost-input": findings(4, allowed=True), "stalled": findings(1, allowed=True, warning=True)}
    a = verdict(anomalies=found, checked=["lost-input", "stalled"])
    comparison = of_runs(tmp_path, {"verdict_of_run": a}, {"verdict_of_run": verdict(checked=["lost-input"])})
    assert words(row(comparison, "lost-input")) == ("4 (allowed)", "none")
    assert words(row(comparison, "stalled")) == ("1 (a warning)", "not known")


def test_a_missing_number_is_not_known_and_never_0(tmp_path: Path) -> None:
    comparison = of_runs(tmp_path, {}, {"commits": []})
    for name in ("committed transactions", "committed records", "median of the whole run"):
        assert row(comparison, name).b == "not known"
        assert row(comparison, name).ratio is None
        assert row(comparison, name).as_json()["b"] is None


@pytest.mark.parametrize(
    ("file", "unknown", "still_known"),
    [
        ("history/ops.parquet", ["committed transactions", "committed records", "99 % of the whole run"], []),
        ("history/sends.parquet", ["committed records"], ["committed transactions", "99 % of the whole run"]),
        (
            "metadata.json",
            ["committed transactions", "committed records", "99 % of the whole run"],
            ["longest gap without a commit"],
        ),
    ],
)
def test_a_removed_file_is_noted(
    tmp_path: Path, file: str, unknown: list[str], still_known: list[str]
) -> None:
    of_runs(tmp_path, {}, {})
    (tmp_path / "b" / file).unlink()
    comparison = compare(*(read_run(name, tmp_path / name) for name in ("a", "b")))
    assert {row(comparison, name).b for name in unknown} == {"not known"}
    assert "not known" not in {row(comparison, name).b for name in still_known}
    assert any(note.startswith("B: ") and file.rpartition("/")[2] in note for note in comparison.notes)
    assert not any(note.startswith("A: ") for note in comparison.notes)


def test_a_pipeline_that_committed_nothing_under_load_has_a_rate_of_0(tmp_path: Path) -> None:
    comparison = of_runs(tmp_path, {}, {"commits": [(25.0, 5.0)]})
    assert row(comparison, "committed transactions").b == "0 per second"
    assert row(comparison, "committed records").b == "0 per second"
    assert row(comparison, "committed records").ratio is None


def test_faults_are_paired_by_kind_and_order(tmp_path: Path) -> None:
    def gap(gap_s: float) -> Liveness:
        return Liveness(longest_gap_s=gap_s)

    a = [fault(start_s=12.0, liveness=gap(1)), fault("partition", 14.0, liveness=gap(2)),
         fault(start_s=18.0, liveness=gap(3))]  # fmt: skip
    b = [fault(start_s=16.0, liveness=gap(30)), fault(start_s=11.0, liveness=gap(10))]  # in another order
    comparison = of_runs(
        tmp_path, {"verdict_of_run": verdict(faults=a)}, {"verdict_of_run": verdict(faults=b)}
    )
    gaps = {
        table.title: words(row(comparison, "longest gap without a commit", table.title))
        for table in comparison.pairs[0].tables
        if table.title.startswith("Recovery")
    }
    assert gaps == {
        "Recovery from kill-broker, number 1 of the run": ("1 s", "10 s"),
        "Recovery from partition": ("2 s", "no such fault"),
        "Recovery from kill-broker, number 2 of the run": ("3 s", "30 s"),
    }


def test_a_recovery_that_is_not_known_has_its_reason(tmp_path: Path) -> None:
    a = fault(liveness=Liveness(not_known="a fault of time acted"))
    comparison = of_runs(
        tmp_path,
        {"verdict_of_run": verdict(faults=[a])},
        {"verdict_of_run": verdict(faults=[fault(liveness=Liveness(longest_gap_s=2.0))])},
    )
    assert words(row(comparison, "longest gap without a commit")) == ("not known", "2 s")
    assert words(row(comparison, "rate back after")) == ("not known", "not seen")
    assert row(comparison, "not known, because").a == "a fault of time acted"


def test_it_is_not_known_when_a_run_was_back_to_what_was_never_normal(tmp_path: Path) -> None:
    early, late = (fault(liveness=Liveness(longest_gap_s=2.0, seconds_before=n)) for n in (2, 3))
    comparison = of_runs(
        tmp_path, {"verdict_of_run": verdict(faults=[early])}, {"verdict_of_run": verdict(faults=[late])}
    )
    assert words(row(comparison, "rate back after")) == ("not known", "not seen")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"acted": False}, "the fault did not act"),
        ({"liveness": None}, "the run stored none (`fencepost check --update`)"),
    ],
)
def test_a_fault_without_recovery_says_why(tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
    comparison = of_runs(tmp_path, {}, {"verdict_of_run": verdict(faults=[fault(**changes)])})
    assert words(row(comparison, "longest gap without a commit")) == ("2 s", "not known")
    assert row(comparison, "not known, because").b == reason


def test_settings_of_the_workload_are_compared_by_the_names_of_stages(tmp_path: Path) -> None:
    def workload(timeout_ms: int) -> dict[str, Any]:
        stages = [{"name": "shop", "txn_timeout_ms": timeout_ms}, {"name": "payments", "txn_timeout_ms": 9}]
        return {"name": "shop", "stages": stages}

    comparison = of_runs(tmp_path, {"workload": workload(3000)}, {"workload": workload(5000)})
    (settings,) = [table for table in comparison.differences if table.title.startswith("Settings")]
    assert [(row.name, row.a, row.b) for row in settings.rows] == [
        ("workload.stages.shop.txn_timeout_ms", "3000", "5000")
    ]


def test_where_a_run_is_stored_is_no_difference_and_a_missing_option_is_not_set(tmp_path: Path) -> None:
    options = {"store": "x", "name": "one", "rate": 10.0, "broker": {"num.io.threads": "8"}}
    comparison = of_runs(
        tmp_path, {"options": options}, {"options": {"store": "y", "name": "two", "rate": 20.0, "broker": {}}}
    )
    (settings,) = [table for table in comparison.differences if table.title.startswith("Settings")]
    assert {row.name: words(row) for row in settings.rows} == {
        "rate": ("10.0", "20.0"),
        "broker.num.io.threads": ("8", "not set"),
    }


def test_a_secret_is_in_no_output(tmp_path: Path) -> None:
    def options(secret: str) -> dict[str, Any]:
        return {
            "mirror": f"https://me:{secret}@host/maven",
            "broker": {"ssl.keystore.password": secret, "jvm": f"-Da.password={secret} -Xss1m"},
            "rule": [f"token={secret}"],
        }

    comparison = of_runs(
        tmp_path,
        {"options": options("hunter2"), "workload": {"env": {"DB_PASSWORD": "hunter2"}}},
        {"options": options("hunter3"), "workload": {"env": {"DB_PASSWORD": "hunter3"}}},
    )
    (settings,) = [table for table in comparison.differences if table.title.startswith("Settings")]
    assert {row.name for row in settings.rows} == {
        "mirror", "broker.ssl.keystore.password", "broker.jvm", "rule", "workload.env.DB_PASSWORD",
    }  # fmt: skip
    assert all("another value" in row.b for row in settings.rows)
    for text in ("\n".join(lines(comparison)), json.dumps(comparison.as_json()), draw(comparison)):
        assert "hunter" not in text


def test_two_long_values_that_differ_in_the_middle_are_different(tmp_path: Path) -> None:
    a, b = ("x" * 1000 + letter + "x" * 1000 for letter in "ab")
    comparison = of_runs(tmp_path, {"options": {"prefix": a}}, {"options": {"prefix": b}})
    assert row(comparison, "prefix").b.endswith("(another value)")


def test_a_run_without_verdict_is_unreadable(tmp_path: Path) -> None:
    write_run(tmp_path / "a", None)
    with pytest.raises(UnreadableInput, match="has no verdict yet: run `fencepost check"):
        read_run("a", tmp_path / "a")


# Suites


def test_a_figure_of_a_cell_is_the_median_over_its_seeds(suites: Callable[[], Comparison]) -> None:
    comparison = suites()
    (pair,) = comparison.pairs
    assert pair.name == "shop librdkafka kill-broker"
    latency = row(comparison, "median of the whole run")
    assert words(latency) == ("20 ms (10 ms to 30 ms)", "200 ms (100 ms to 300 ms)")
    assert latency.ratio == pytest.approx(10)
    assert words(row(comparison, "longest gap without a commit")) == ("2 s (2 to 2)", "2 s (2 to 2)")
    assert words(row(comparison, "fault")) == ("in 3 of 3 runs", "in 3 of 3 runs")
    assert words(row(comparison, "kafka", "Settings")) == ("3.9.2", "4.4.0")
    assert comparison.notes == []


def test_the_median_ignores_the_order_and_an_outlier() -> None:
    assert ValueRange.of([100.0, None, 1.0, 2.0]) == ValueRange(2.0, 1.0, 100.0, 3, 4)
    assert ValueRange.of([1.0, 2.0]) == ValueRange(1.5, 1.0, 2.0, 2, 2)
    assert ValueRange.of([None]) is None
    assert ValueRange.of([2.0, None, 1.0]).text("s") == "1.5 s (1 to 2; 2 of 3 runs)"


def test_the_totals_count_every_run(tmp_path: Path) -> None:
    states = (CellState.VALID, CellState.VALID, CellState.INVALID, CellState.FAILED, CellState.NOT_RUN)
    write_suite(tmp_path / "a", *(seeded_cell(seed, state) for seed, state in enumerate(states)))
    write_suite(tmp_path / "b", *(seeded_cell(seed) for seed in range(4)))
    comparison = of_suites(tmp_path)
    assert comparison.totals
    assert {row.name: words(row) for row in comparison.totals.rows} == {
        "valid": ("2", "4"),
        "invalid": ("1", "0"),
        "failed": ("1", "0"),
        "not run": ("1", "0"),
        "runs": ("5", "4"),
    }
    assert words(row(comparison, "verdicts")) == ("2 valid, 1 invalid, 1 failed, 1 not run", "4 valid")
    assert words(row(comparison, "seed 2")) == ("invalid: reprocessed-input 4", "valid")
    assert words(row(comparison, "seed 4")) == ("not run", "no such run")
    assert row(comparison, "median of the whole run").a == "20 ms (20 ms to 20 ms; 3 of 5 runs)"
    assert row(comparison, "reprocessed-input").a == "in 1 of 5 runs (4 findings; not known in 4)"


def test_a_run_or_a_cell_on_one_side_only_is_listed(tmp_path: Path) -> None:
    write_suite(tmp_path / "a", seeded_cell(1), seeded_cell(2))
    write_suite(tmp_path / "b", seeded_cell(2), seeded_cell(3), seeded_cell(1, nemesis="partition"))
    comparison = of_suites(tmp_path)
    assert [pair.name for pair in comparison.pairs] == [
        "shop librdkafka kill-broker",
        "shop librdkafka partition",
    ]
    assert {n: words(row(comparison, f"seed {n}")) for n in (1, 2, 3)} == {
        1: ("valid", "no such run"),
        2: ("valid", "valid"),
        3: ("no such run", "valid"),
    }
    assert words(row(comparison, "verdicts", pair=1)) == ("no such run", "1 valid")
    assert words(row(comparison, "seed 1", pair=1)) == ("no such run", "valid")
    assert words(row(comparison, "median of the whole run", pair=1)) == ("no such run", "20 ms")
    assert words(row(comparison, "longest gap without a commit", pair=1)) == ("no such run", "2 s")
    for text in ("\n".join(lines(comparison)), draw(comparison)):
        assert text.count("no such run") >= 5


def test_cells_are_paired_though_the_suites_differ_in_their_client(tmp_path: Path) -> None:
    """The client is part of a cell's name. It is the option that the two suites compare."""
    nemeses = ("kill-broker", "partition")
    write_suite(tmp_path / "a", *(seeded_cell(1, nemesis=nemesis) for nemesis in nemeses))
    write_suite(tmp_path / "b", *(seeded_cell(1, client="java", nemesis=nemesis) for nemesis in nemeses))
    pairs = of_suites(tmp_path).pairs
    assert [pair.name for pair in pairs] == ["shop kill-broker", "shop partition"]


def test_cells_are_not_paired_across_an_option_that_varies_within_a_suite(tmp_path: Path) -> None:
    write_suite(tmp_path / "a", seeded_cell(1), seeded_cell(1, client="java"))
    write_suite(tmp_path / "b", seeded_cell(1, client="java"))
    pairs = of_suites(tmp_path).pairs
    assert [pair.name for pair in pairs] == ["shop librdkafka kill-broker", "shop java kill-broker"]


def test_an_option_that_only_one_suite_names_does_not_part_the_cells(tmp_path: Path) -> None:
    options = {"kafka": "4.4.0", "time-limit": 30.0}
    write_suite(tmp_path / "a", seeded_cell(1, options=options, more={"kafka": "4.4.0"}))
    write_suite(tmp_path / "b", seeded_cell(1, options=options))
    (pair,) = of_suites(tmp_path).pairs
    assert pair.name == "shop librdkafka kill-broker kafka=4.4.0"


def test_suites_without_a_common_seed_are_noted(tmp_path: Path) -> None:
    write_suite(tmp_path / "a", seeded_cell(1))
    write_suite(tmp_path / "b", seeded_cell(2))
    (note,) = of_suites(tmp_path).notes
    assert note.startswith("no seed of a cell is in both suites")


def test_a_suite_whose_runs_are_gone_still_has_verdicts_and_options(tmp_path: Path) -> None:
    for name, kafka in (("a", "3.9.2"), ("b", "4.4.0")):
        cells = [
            structs.replace(seeded_cell(seed, CellState.INVALID), options={"kafka": kafka}, run=None)
            for seed in (1, 2)
        ]
        write_suite(tmp_path / name, *cells)
    comparison = of_suites(tmp_path)
    assert words(row(comparison, "verdicts")) == ("2 invalid", "2 invalid")
    assert words(row(comparison, "reprocessed-input"))[0] == "in 2 of 2 runs (4 findings)"
    assert words(row(comparison, "committed records")) == ("not known", "not known")
    assert words(row(comparison, "kafka", "Settings")) == ("3.9.2", "4.4.0")


def test_the_numbers_in_json_are_those_of_the_table(suites: Callable[[], Comparison]) -> None:
    body = json.loads(json.dumps(suites().as_json()))
    assert (body["schema"], body["kind"]) == (1, "suite")
    assert (body["a"]["path"], body["b"]["title"][:12]) == ("a", "kafka-4.4.0,")
    (latency,) = [
        row
        for table in body["pairs"][0]["tables"]
        for row in table["rows"]
        if row["name"] == "99 % of the whole run"
    ]
    assert latency == {
        "name": "99 % of the whole run",
        "unit": "ms",
        "a": {"median": 20.0, "low": 10.0, "high": 30.0, "known": 3, "runs": 3},
        "b": {"median": 200.0, "low": 100.0, "high": 300.0, "known": 3, "runs": 3},
        "ratio": 10.0,
    }


# Pages


def test_the_page_has_every_row_and_no_script(suites: Callable[[], Comparison]) -> None:
    comparison = suites()
    page = draw(comparison)
    assert "<script" not in page
    assert page.count("<tr>") == sum(
        1 + len(table.rows)
        for table in (comparison.totals, *comparison.pairs[0].tables, *comparison.differences)
        if table and table.rows
    )


def test_texts_of_a_run_cannot_become_markup(tmp_path: Path) -> None:
    hostile = verdict(
        anomalies={HOSTILE: findings(1)},
        checked=[],
        faults=[fault(HOSTILE, target=HOSTILE, liveness=Liveness(not_known=HOSTILE))],
    )
    comparison = of_runs(
        tmp_path,
        {"verdict_of_run": hostile, "options": {HOSTILE[:-1].replace("\0", ""): HOSTILE.replace("\0", "")}},
        {"versions": {HOSTILE: HOSTILE}},
    )
    page = draw(comparison)
    assert "<script" not in page
    assert "\u202e" not in page and "\x00" not in page
    console = "\n".join(lines(comparison))
    assert "\u202e" not in console and "\x00" not in console
    assert max(map(len, console.splitlines())) < 400
