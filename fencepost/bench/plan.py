"""What a bench measures, and in which order: points that take turns, so that each meets the same machine.

A *point* is one pipeline: how it delivers, on which client, how many inputs a transaction, and so on. Points that
differ in their delivery alone stand together, so that a ratio compares measurements that were made seconds apart; a
*round* measures every point once.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from workloads.model.policy import Delivery

BASELINE = Delivery.AT_LEAST_ONCE
DELIVERIES = (BASELINE, Delivery.IDEMPOTENT, Delivery.TRANSACTIONS)
LATENCY_SIZES_UP_TO = 100
"""At a rate that the pipeline can take a batch of more inputs is never full."""
USUAL_SIZE = 100
"""Inputs a transaction where another thing varies."""
START_S = 20.0
"""About how long a cluster and the processes take to start, and the input to be written."""
TURN_S = {"throughput": 1.3, "latency": 1.6}
"""About how long a measurement takes beyond the time that is measured: the group forms, the last batch ends."""


class MeasurementKind(StrEnum):
    """What is measured of a point."""

    THROUGHPUT = "throughput"  # saturated, from a topic that is filled beforehand
    LATENCY = "latency"  # at a rate that it can take: from an input's creation to its visible output


@dataclass(frozen=True)
class BenchPoint:
    """One pipeline, and what is measured of it."""

    kind: MeasurementKind
    delivery: Delivery
    client: str
    txn_size: int  # inputs that a batch holds at most; without transactions as well
    partitions: int  # of the output topic
    workers: int = 1
    journal: bool = True  # the workers write down what they do, as in a run

    @property
    def baseline(self) -> "BenchPoint":
        """What it is compared with."""
        if not self.journal:
            return replace(self, journal=True)
        return replace(self, delivery=BASELINE)

    @property
    def group(self) -> "BenchPoint":
        """The same for all points that are measured side by side."""
        return replace(self, delivery=BASELINE, journal=True)


def describe(point: BenchPoint) -> str:
    """Where something was measured."""
    inputs = "1 input" if point.txn_size == 1 else f"{point.txn_size:,} inputs"
    partitions = "1 partition" if point.partitions == 1 else f"{point.partitions} partitions"
    workers = "1 worker" if point.workers == 1 else f"{point.workers} workers"
    return f"{point.client}, {inputs}, {partitions}, {workers}"


@dataclass(frozen=True)
class BenchRequest:
    """What the user wants to know."""

    clients: tuple[str, ...] = ("librdkafka", "java")
    sizes: tuple[int, ...] = (1, 10, 100, 1_000, 10_000)
    partitions: tuple[int, ...] = (6, 1, 24)  # the first where another thing varies
    workers: tuple[int, ...] = (1, 3)
    rounds: int = 3
    slice_s: float = 2.0  # of each measurement of throughput
    latency_slice_s: float = 5.0

    @property
    def usual_size(self) -> int:
        """The size where another thing varies: the one that is nearest to the usual one."""
        return min(self.sizes, key=lambda size: abs(size - USUAL_SIZE))

    @property
    def most_workers(self) -> int:
        """The workers that are ever at work together."""
        return max(self.workers)

    @property
    def planned_s(self) -> float:
        """About how long it takes, in seconds."""
        own_s = {MeasurementKind.THROUGHPUT: self.slice_s, MeasurementKind.LATENCY: self.latency_slice_s}

        def turns_s(points: Sequence[BenchPoint]) -> float:
            return sum(own_s[point.kind] + TURN_S[point.kind] for point in points)

        return START_S + turns_s(self.warm_up()) + self.rounds * turns_s(self.points())

    def warm_up(self) -> list[BenchPoint]:
        """What is done first and not told: brokers and workers have then loaded their classes."""
        size, at = self.usual_size, self.workers[0]
        return [
            BenchPoint(
                MeasurementKind.THROUGHPUT, Delivery.TRANSACTIONS, client, size, self.partitions[0], at
            )
            for client in self.clients
        ]

    def points(self) -> list[BenchPoint]:
        """All points, each once: throughput first, because the rates for latency follow from it."""
        return list(dict.fromkeys([*self._throughput(), *self._latency()]))

    def _throughput(self) -> Iterator[BenchPoint]:
        first, at = self.partitions[0], self.workers[0]
        for client in self.clients:
            for size in self.sizes:
                yield from _deliveries(
                    BenchPoint(MeasurementKind.THROUGHPUT, BASELINE, client, size, first, at)
                )
            usual = BenchPoint(MeasurementKind.THROUGHPUT, BASELINE, client, self.usual_size, first, at)
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
"""What `--quick` leaves of it."""


def _deliveries(point: BenchPoint) -> Iterator[BenchPoint]:
    return (replace(point, delivery=delivery) for delivery in DELIVERIES)


def _ends(point: BenchPoint) -> Iterator[BenchPoint]:
    """The baseline and transactions: what lies between them is asked by size alone."""
    return (replace(point, delivery=delivery) for delivery in (BASELINE, Delivery.TRANSACTIONS))


def order_round(points: Sequence[BenchPoint], number: int, seed: int) -> list[BenchPoint]:
    """The points as round `number` (from 0) measures them: kind by kind, group by group.

    From round to round the groups, and the points within each, begin one further on: what comes first, or after a
    heavy neighbour, does not do so every time. The seed says with which it begins.
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
    """About a third, so that three rounds begin at three places."""
    return max(1, count // 3)


def _rotated(items: list[BenchPoint], by: int) -> list[BenchPoint]:
    by %= max(1, len(items))
    return items[by:] + items[:by]
