"""The points of a bench, and the order in which they are measured."""

from collections import Counter
from itertools import groupby

import pytest

from benchmarks.exactly_once.plan import BASELINE, QUICK, BenchRequest, MeasurementKind, order_round
from workloads.model.policy import Delivery

ALL_REQUESTS = pytest.mark.parametrize(
    "bench", [BenchRequest(), QUICK, BenchRequest(clients=("java",), sizes=(7,), workers=(2,))]
)


@ALL_REQUESTS
def test_every_round_measures_every_point_once(bench: BenchRequest):
    for n in range(3):
        assert Counter(order_round(bench.points(), n, 5)) == Counter(bench.points())


@ALL_REQUESTS
def test_every_baseline_is_one_of_the_points(bench: BenchRequest):
    points = set(bench.points())
    assert {point.baseline for point in points} <= points


@ALL_REQUESTS
def test_points_that_are_compared_are_measured_one_after_the_other(bench: BenchRequest):
    groups = [group for group, _ in groupby(order_round(bench.points(), 1, 3), key=lambda point: point.group)]
    assert len(groups) == len(set(groups))


@ALL_REQUESTS
def test_throughput_is_measured_before_the_latency_that_depends_on_it(bench: BenchRequest):
    for n in range(3):
        measured = set()
        for point in order_round(bench.points(), n, 1):
            if point.kind is MeasurementKind.THROUGHPUT:
                measured.add((point.client, point.txn_size, point.delivery))
            else:
                assert (point.client, point.txn_size, Delivery.TRANSACTIONS) in measured


def test_rounds_begin_at_different_points_and_deliveries():
    points = BenchRequest().points()
    rounds = [order_round(points, n, 0) for n in range(3)]
    assert len({order[0].group for order in rounds}) == 3
    first_of_largest = [next(point for point in order if point.txn_size == 10_000) for order in rounds]
    assert {point.delivery for point in first_of_largest} == {
        BASELINE,
        Delivery.IDEMPOTENT,
        Delivery.TRANSACTIONS,
    }


def test_the_same_seed_gives_the_same_order_and_another_one_another():
    points = BenchRequest().points()
    assert order_round(points, 1, 7) == order_round(points, 1, 7) != order_round(points, 1, 8)


def test_every_size_client_and_delivery_is_measured():
    points = BenchRequest().points()
    for client in ("librdkafka", "java"):
        for size in (1, 10, 100, 1_000, 10_000):
            for delivery in (Delivery.AT_LEAST_ONCE, Delivery.IDEMPOTENT, Delivery.TRANSACTIONS):
                assert any(
                    (point.client, point.txn_size, point.delivery) == (client, size, delivery)
                    for point in points
                )
    assert {point.partitions for point in points} == {1, 6, 24}
    assert {point.workers for point in points} == {1, 3}
    assert not all(point.journal for point in points)


def test_a_quick_bench_takes_less_than_three_minutes_and_the_default_up_to_twenty():
    assert QUICK.planned_s < 180
    assert 300 < BenchRequest().planned_s < 1_200
