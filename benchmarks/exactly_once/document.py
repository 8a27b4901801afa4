"""The results of the benchmark as JSON (`--json`)."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.exactly_once.figures import (
    QUANTILES,
    Measurement,
    Ratio,
    pooled_latencies,
    quantile,
    ratios,
    steps_of,
)
from benchmarks.exactly_once.plan import BASELINE, BenchPoint, BenchRequest, MeasurementKind, describe

SCHEMA = 1


def as_json(
    request: BenchRequest, measurements: Sequence[Measurement], *, cut_short: str, context: Mapping[str, Any]
) -> dict[str, Any]:
    """All results of a bench.

    Args:
        cut_short: Why the bench ended early. Empty if it did not.
        context: Machine, versions, settings and seed.
    """
    all_ratios = ratios(measurements)
    measured_points = {measurement.point for measurement in measurements}
    points = [point for point in request.points() if point in measured_points]
    return {
        "schema": SCHEMA,
        "cut_short": cut_short,
        "rounds": {
            "asked": request.rounds,
            "begun": 1 + max((measurement.round for measurement in measurements), default=-1),
        },
        "measurements": {"planned": request.rounds * len(request.points()), "made": len(measurements)},
        "baseline": BASELINE.value,
        **context,
        "points": [_point(point, measurements, all_ratios) for point in points],
    }


def _point(
    point: BenchPoint, measurements: Sequence[Measurement], all_ratios: Sequence[Ratio]
) -> dict[str, Any]:
    own = [measurement for measurement in measurements if measurement.point == point]
    return {
        "measured": point.kind.value,
        "delivery": point.delivery.value,
        "client": point.client,
        "txn_size": point.txn_size,
        "partitions": point.partitions,
        "workers": point.workers,
        "journal": point.journal,
        "where": describe(point),
        "rounds": len(own),
        "failed": sum(measurement.failed for measurement in own),
        "steps_ms": {name: round(value, 3) for name, value in steps_of(measurements, point).items()},
        **(_latency(own, measurements) if point.kind is MeasurementKind.LATENCY else _throughput(own)),
        "ratios": {
            ratio.figure: {
                "to": {"delivery": point.baseline.delivery.value, "journal": point.baseline.journal},
                **ratio.spread.as_table(),
            }
            for ratio in all_ratios
            if ratio.point == point
        },
    }


def _throughput(own: Sequence[Measurement]) -> dict[str, Any]:
    return {
        "inputs_per_s": round(statistics.median(measurement.inputs_per_s for measurement in own), 1),
        "slowest": round(min(measurement.inputs_per_s for measurement in own), 1),
        "fastest": round(max(measurement.inputs_per_s for measurement in own), 1),
        "transactions_per_s": round(statistics.median(measurement.txns_per_s for measurement in own), 2),
        "mean_txn_size": round(statistics.median(measurement.mean_size for measurement in own), 1),
    }


def _latency(own: Sequence[Measurement], measurements: Sequence[Measurement]) -> dict[str, Any]:
    values = pooled_latencies(measurements, own[0].point)
    quantiles = {name: quantile(values, name) for name in QUANTILES}
    return {
        "rate": round(statistics.median(measurement.rate for measurement in own), 1),
        "samples": len(values),
        "latency_ms": {name: None if value is None else round(value, 2) for name, value in quantiles.items()},
    }
