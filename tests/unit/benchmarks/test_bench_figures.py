"""Ratios, spreads and quantiles of planted measurements."""

from dataclasses import replace

import pytest

from benchmarks.exactly_once.figures import Measurement, quantile, ratios, steps_of
from benchmarks.exactly_once.plan import BenchPoint, MeasurementKind
from workloads.model.policy import Delivery

BASE = BenchPoint(MeasurementKind.THROUGHPUT, Delivery.AT_LEAST_ONCE, "java", 10, 6)
TXN = replace(BASE, delivery=Delivery.TRANSACTIONS)


def rate(point: BenchPoint, number: int, inputs_per_s: float) -> Measurement:
    return Measurement(point, number, inputs_per_s=inputs_per_s, txns_per_s=inputs_per_s / 10)


def test_a_ratio_compares_only_points_of_the_same_round():
    """The machine was twice as fast in the second round, which changes no ratio."""
    measured = [rate(BASE, 0, 100), rate(TXN, 0, 50), rate(TXN, 1, 120), rate(BASE, 1, 200)]
    (ratio,) = ratios(measured)
    assert ratio.spread.values == (0.5, 0.6)
    assert (ratio.spread.low, ratio.spread.median, ratio.spread.high) == (0.5, 0.55, 0.6)


def test_a_round_without_its_baseline_gives_no_ratio():
    measured = [rate(BASE, 0, 100), rate(TXN, 0, 50), rate(TXN, 1, 1)]
    assert [ratio.spread.values for ratio in ratios(measured)] == [(0.5,)]
    assert not ratios([rate(BASE, 0, 100)])
    assert not ratios([])


def test_a_pipeline_without_a_journal_is_compared_with_one_that_has_it():
    no_journal = replace(TXN, journal=False)
    (ratio, txn_ratio) = sorted(
        ratios([rate(BASE, 0, 100), rate(TXN, 0, 50), rate(no_journal, 0, 55)]),
        key=lambda ratio: ratio.point.journal,
    )
    assert ratio.spread.values == (pytest.approx(1.1),)
    assert txn_ratio.spread.values == (0.5,)


def test_latencies_are_compared_by_quantile():
    slow, fast = replace(TXN, kind=MeasurementKind.LATENCY), replace(BASE, kind=MeasurementKind.LATENCY)
    measured = [
        Measurement(fast, 0, latencies_ms=[5.0] * 400),
        Measurement(slow, 0, latencies_ms=[20.0] * 390 + [100.0] * 10),
    ]
    by_figure = {ratio.figure: ratio for ratio in ratios(measured)}
    assert by_figure["p50"].spread.values == (4.0,)
    assert by_figure["p99"].spread.values == (20.0,)
    assert (by_figure["p99"].own, by_figure["p99"].base) == (100.0, 5.0)
    assert "p99.9" not in by_figure


def test_a_quantile_with_too_few_samples_is_not_reported():
    values = [float(n) for n in range(1, 1_001)]
    assert quantile(values, "p50") == 500.0
    assert quantile(values, "p99") == 990.0
    assert quantile(values, "p99.9") == 999.0
    assert quantile(values[:-1], "p99.9") is None
    assert quantile([1.0], "p50") == 1.0
    assert quantile([1.0] * 99, "p99") is None
    assert quantile([], "p50") is None


def test_steps_are_the_median_of_the_rounds():
    measured = [Measurement(TXN, n, steps_ms={"flush": float(n), "poll": 1.0}) for n in range(3)]
    assert steps_of(measured, TXN) == {"flush": 1.0, "poll": 1.0}
    assert not steps_of(measured, BASE)
