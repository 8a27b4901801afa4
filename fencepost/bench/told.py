"""A bench as JSON: what `--json` prints, what is stored, and what the page is drawn from."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from fencepost.bench.claims import check_claims
from fencepost.bench.figures import (
    QUANTILES,
    Measurement,
    Ratio,
    pooled_latencies,
    quantile,
    ratios,
    steps_of,
)
from fencepost.bench.plan import BASELINE, BenchPoint, BenchRequest, MeasurementKind, describe

SCHEMA = 1


def as_json(
    asked: BenchRequest, measured: Sequence[Measurement], *, cut_short: str, about: Mapping[str, Any]
) -> dict[str, Any]:
    """Everything. `cut_short`: why it ended early, if it did; `about`: machine, versions, settings, seed."""
    found = ratios(measured)
    made = {one.point for one in measured}
    points = [point for point in asked.points() if point in made]
    return {
        "schema": SCHEMA,
        "cut_short": cut_short,
        "rounds": {"asked": asked.rounds, "begun": 1 + max((one.round for one in measured), default=-1)},
        "measurements": {"planned": asked.rounds * len(asked.points()), "made": len(measured)},
        "baseline": BASELINE.value,
        **about,
        "points": [_point(point, measured, found) for point in points],
        "claims": [one.as_table() for one in check_claims(found)],
    }


def _point(point: BenchPoint, measured: Sequence[Measurement], found: Sequence[Ratio]) -> dict[str, Any]:
    own = [one for one in measured if one.point == point]
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
        "failed": sum(one.failed for one in own),
        "steps_ms": {name: round(value, 3) for name, value in steps_of(measured, point).items()},
        **(_latency(own, measured) if point.kind is MeasurementKind.LATENCY else _throughput(own)),
        "ratios": {
            ratio.figure: {
                "to": {"delivery": point.baseline.delivery.value, "journal": point.baseline.journal},
                **ratio.spread.as_table(),
            }
            for ratio in found
            if ratio.point == point
        },
    }


def _throughput(own: Sequence[Measurement]) -> dict[str, Any]:
    return {
        "inputs_per_s": round(statistics.median(one.inputs_per_s for one in own), 1),
        "slowest": round(min(one.inputs_per_s for one in own), 1),
        "fastest": round(max(one.inputs_per_s for one in own), 1),
        "transactions_per_s": round(statistics.median(one.txns_per_s for one in own), 2),
        "mean_txn_size": round(statistics.median(one.mean_size for one in own), 1),
    }


def _latency(own: Sequence[Measurement], measured: Sequence[Measurement]) -> dict[str, Any]:
    values = pooled_latencies(measured, own[0].point)
    told = {name: quantile(values, name) for name in QUANTILES}
    return {
        "rate": round(statistics.median(one.rate for one in own), 1),
        "samples": len(values),
        "latency_ms": {name: None if value is None else round(value, 2) for name, value in told.items()},
    }
