"""Plan what a bench measures, and in which order. Points take turns, so that the load of the machine affects all alike.

A *point* is one pipeline with its delivery, client, inputs per transaction and so on. A *round* measures every point
once. Points that differ only in their delivery are measured one after the other, so that a ratio compares measurements
that are seconds apart.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from workloads.model.policy import Delivery

BASELINE = Delivery.AT_LEAST_ONCE
DELIVERIES = (BASELINE, Delivery.IDEMPOTENT, Delivery.TRANSACTIONS)
LATENCY_SIZES_UP_TO = 100
"""Largest size for which latency is measured. At that rate, larger batches would never be full."""
USUAL_SIZE = 100
"""Preferred inputs per transaction while other options vary."""
START_S = 20.0
"""Estimated seconds to start the cluster and the processes, and to write the inputs."""
TURN_S = {"throughput": 1.3, "latency": 1.6}
"""Estimated overhead of a measurement in seconds: the group forms, and the last batch ends."""


class MeasurementKind(StrEnum):
    """The kind of a measurement."""

    THROUGHPUT = "throughput"  # saturated, from a topic that was filled in advance
    LATENCY = "latency"  # from the creation of an input to its visible output, below saturation


@dataclass(frozen=True)
class BenchPoint:
    """One pipeline, and the kind of measurement."""

    kind: MeasurementKind
    delivery: Delivery
    client: str
    txn_size: int  # maximum inputs per batch, with or without transactions
    partitions: int  # of the output topic
    workers: int = 1
    journal: bool = True  # whether workers keep journals, as in a run

    @property
    def baseline(self) -> "BenchPoint":
        """The point with which this one is compared."""
        if not self.journal:
            return replace(self, journal=True)
        return replace(self, delivery=BASELINE)

    @property
    def group(self) -> "BenchPoint":
        """A key that is equal for points that are measured one after the other."""
        return replace(self, delivery=BASELINE, journal=True)


def describe(point: BenchPoint) -> str:
    """Describe a point without its delivery: client, inputs, partitions, workers."""
    inputs = "1 input" if point.txn_size == 1 else f"{point.txn_size:,} inputs"
    partitions = "1 partition" if point.partitions == 1 else f"{point.partitions} partitions"
    workers = "1 worker" if point.workers == 1 else f"{point.workers} workers"
    return f"{point.client}, {inputs}, {partitions}, {workers}"


@dataclass(frozen=True)
class BenchRequest:
    """The options of a bench."""

    clients: tuple[str, ...] = ("librdkafka", "java")
    sizes: tuple[int, ...] = (1, 10, 100, 1_000, 10_000)
    partitions: tuple[int, ...] = (6, 1, 24)  # the first is used while other options vary
    workers: tuple[int, ...] = (1, 3)
    rounds: int = 3
    slice_s: float = 2.0  # duration of a measurement of throughput
    latency_slice_s: float = 5.0

    @property
    def usual_size(self) -> int:
        """The size that is used while other options vary: the one nearest to `USUAL_SIZE`."""
        return min(self.sizes, key=lambda size: abs(size - USUAL_SIZE))

    @property
    def most_workers(self) -> int:
        """The largest number of workers of any point."""
        return max(self.workers)

    @property
    def planned_s(self) -> float:
        """The estimated duration of the bench in seconds."""
        own_s = {MeasurementKind.THROUGHPUT: self.slice_s, MeasurementKind.LATENCY: self.latency_slice_s}

        def turns_s(points: Sequence[BenchPoint]) -> float:
            return sum(own_s[point.kind] + TURN_S[point.kind] for point in points)

        return START_S + turns_s(self.warm_up()) + self.rounds * turns_s(self.points())

    def warm_up(self) -> list[BenchPoint]:
        """Measurements before the first round. They load classes in brokers and workers, and are not reported."""
        size, workers = self.usual_size, self.workers[0]
        return [
            BenchPoint(
                MeasurementKind.THROUGHPUT, Delivery.TRANSACTIONS, client, size, self.partitions[0], workers
            )
            for client in self.clients
        ]

    def points(self) -> list[BenchPoint]:
        """All points, each once. Throughput comes first, because the rates for latency depend on it."""
        return list(dict.fromkeys([*self._throughput(), *self._latency()]))

    def _throughput(self) -> Iterator[BenchPoint]:
        first, usual_workers = self.partitions[0], self.workers[0]
        for client in self.clients:
            for size in self.sizes:
                yield from _deliveries(
                    BenchPoint(MeasurementKind.THROUGHPUT, BASELINE, client, size, first, usual_workers)
                )
            usual = BenchPoint(
                MeasurementKind.THROUGHPUT, BASELINE, client, self.usual_size, first, usual_workers
            )
            for partitions in self.partitions[1:]:
                yield from _ends(replace(usual, partitions=partitions))
            for workers in self.workers[1:]:
                yield from _ends(replace(usual, workers=workers))
            for point in _ends(usual):
                yield point
                yield replace(point, journal=False)

    def _latency(self) -> Iterator[BenchPoint]:
        for client in self.clients:
            for size in self.sizes:
                if size <= LATENCY_SIZES_UP_TO:
                    first = BenchPoint(
                        MeasurementKind.LATENCY, BASELINE, client, size, self.partitions[0], self.workers[0]
                    )
                    yield from _deliveries(first)


QUICK = BenchRequest(
    clients=("librdkafka",),
    sizes=(1, 100, 10_000),
    partitions=(6,),
    workers=(1,),
    slice_s=1.2,
    latency_slice_s=2.0,
)
"""The options of `--quick`."""


def _deliveries(point: BenchPoint) -> Iterator[BenchPoint]:
    return (replace(point, delivery=delivery) for delivery in DELIVERIES)


def _ends(point: BenchPoint) -> Iterator[BenchPoint]:
    """The point with the two extreme deliveries only."""
    return (replace(point, delivery=delivery) for delivery in (BASELINE, Delivery.TRANSACTIONS))


def order_round(points: Sequence[BenchPoint], number: int, seed: int) -> list[BenchPoint]:
    """The points as round `number` (from 0) measures them: kind by kind, group by group.

    In each round, the groups and the points in each group start at another position. Therefore no point always comes
    first, or always follows a point with much load. The seed chooses the first position.
    """
    ordered: list[BenchPoint] = []
    for kind in MeasurementKind:
        groups: dict[BenchPoint, list[BenchPoint]] = {}
        for point in points:
            if point.kind is kind:
                groups.setdefault(point.group, []).append(point)
        for group in _rotated(list(groups), number * _stride(len(groups)) + seed):
            ordered += _rotated(groups[group], number + seed)
    return ordered


def _stride(count: int) -> int:
    """About a third, so that three rounds start at three different positions."""
    return max(1, count // 3)


def _rotated(items: list[BenchPoint], by: int) -> list[BenchPoint]:
    by %= max(1, len(items))
    return items[by:] + items[:by]
