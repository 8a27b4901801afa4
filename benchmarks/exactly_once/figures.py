"""Compute ratios of measurements to the baseline of the same round, with their spread. Pure functions."""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.exactly_once.plan import BenchPoint, MeasurementKind

QUANTILES: Mapping[str, float] = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}
SAMPLES_BEYOND = 1
"""A quantile needs at least this many values above it."""


@dataclass(frozen=True)
class Measurement:
    """One measurement of one point. `rate` is in inputs per second."""

    point: BenchPoint
    round: int
    inputs_per_s: float = 0.0
    txns_per_s: float = 0.0  # or batches, where there are no transactions
    failed: int = 0  # transactions or batches that were aborted or have no known outcome
    rate: float = 0.0  # at which inputs were created, in measurements of latency
    latencies_ms: Sequence[float] = ()
    steps_ms: Mapping[str, float] = field(
        default_factory=dict
    )  # mean duration of each step, for a transaction of one worker

    @property
    def mean_size(self) -> float:
        """The measured mean number of inputs per transaction."""
        return self.inputs_per_s / self.txns_per_s if self.txns_per_s else 0.0

    def quantile_ms(self, name: str) -> float | None:
        """A quantile of the latencies. None if there are too few."""
        return quantile(self.latencies_ms, name)

    def figure(self, name: str) -> float | None:
        """The value of `throughput` or of a quantile. None if there is none."""
        return self.inputs_per_s or None if name == MeasurementKind.THROUGHPUT else self.quantile_ms(name)


@dataclass(frozen=True)
class Spread:
    """The values of a figure, one for each round."""

    values: tuple[float, ...]

    @property
    def low(self) -> float:
        """The smallest value."""
        return min(self.values)

    @property
    def median(self) -> float:
        """The median value."""
        return statistics.median(self.values)

    @property
    def high(self) -> float:
        """The largest value."""
        return max(self.values)

    def as_table(self) -> dict[str, Any]:
        """Convert to JSON."""
        return {
            "min": round(self.low, 4),
            "median": round(self.median, 4),
            "max": round(self.high, 4),
            "rounds": [round(value, 4) for value in self.values],
        }


@dataclass(frozen=True)
class Ratio:
    """A figure of a point, divided by that of its baseline in the same round."""

    point: BenchPoint
    figure: str  # throughput, or a quantile
    spread: Spread
    own: float  # median of the figure itself: inputs per second, or milliseconds
    base: float  # that of the baseline


def quantile(values: Sequence[float], name: str) -> float | None:
    """The quantile `p50`, `p99` or `p99.9`. None if too few values are above it."""
    share = QUANTILES[name]
    if len(values) * (1 - share) < SAMPLES_BEYOND * (share > 0.5) - 1e-9 or not values:
        return None
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)]


def pooled_latencies(measurements: Sequence[Measurement], point: BenchPoint) -> list[float]:
    """The latencies of a point from all rounds, in milliseconds."""
    return [
        value
        for measurement in measurements
        if measurement.point == point
        for value in measurement.latencies_ms
    ]


def ratios(measurements: Sequence[Measurement]) -> list[Ratio]:
    """Every ratio whose point and baseline were both measured in the same round."""
    points = dict.fromkeys(measurement.point for measurement in measurements)
    return [
        ratio
        for point in points
        if point != point.baseline
        for figure in (
            (MeasurementKind.THROUGHPUT,) if point.kind is MeasurementKind.THROUGHPUT else QUANTILES
        )
        if (ratio := _ratio(measurements, point, figure)) is not None
    ]


def _ratio(measurements: Sequence[Measurement], point: BenchPoint, figure: str) -> Ratio | None:
    pairs = list(_pairs(measurements, point, figure))
    if not pairs:
        return None
    own, base = (statistics.median(side) for side in zip(*pairs, strict=True))
    return Ratio(point, figure, Spread(tuple(value / baseline for value, baseline in pairs)), own, base)


def _pairs(
    measurements: Sequence[Measurement], point: BenchPoint, figure: str
) -> Iterator[tuple[float, float]]:
    by_round = {(measurement.point, measurement.round): measurement for measurement in measurements}
    for (measured_point, number), measurement in by_round.items():
        baseline = by_round.get((point.baseline, number))
        if measured_point == point and baseline is not None:
            values = measurement.figure(figure), baseline.figure(figure)
            if values[0] and values[1]:
                yield values[0], values[1]


def steps_of(measurements: Sequence[Measurement], point: BenchPoint) -> dict[str, float]:
    """The duration of each step of a batch in milliseconds: the median of the rounds."""
    rounds = [
        measurement.steps_ms
        for measurement in measurements
        if measurement.point == point and measurement.steps_ms
    ]
    names = dict.fromkeys(name for steps in rounds for name in steps)
    return {name: statistics.median(steps.get(name, 0.0) for steps in rounds) for name in names}
