"""Which points a bench has, and that they take turns."""

from collections import Counter
from itertools import groupby

import pytest

from fencepost.bench.plan import BASELINE, QUICK, BenchRequest, MeasurementKind, order_round
from workloads.model.policy import Delivery

ASKED = pytest.mark.parametrize(
    "asked", [BenchRequest(), QUICK, BenchRequest(clients=("java",), sizes=(7,), workers=(2,))]
)


@ASKED
def test_every_round_measures_every_point_once(asked: BenchRequest):
    for n in range(3):
        assert Counter(order_round(asked.points(), n, 5)) == Counter(asked.points())


@ASKED
def test_what_is_compared_is_measured_in_every_round(asked: BenchRequest):
    points = set(asked.points())
    assert {point.baseline for point in points} <= points


@ASKED
def test_points_that_are_compared_stand_side_by_side(asked: BenchRequest):
    groups = [group for group, _ in groupby(order_round(asked.points(), 1, 3), key=lambda point: point.group)]
    assert len(groups) == len(set(groups))


@ASKED
def test_the_rate_for_latency_follows_from_what_was_measured_before(asked: BenchRequest):
    for n in range(3):
        taken = set()
        for point in order_round(asked.points(), n, 1):
            if point.kind is MeasurementKind.THROUGHPUT:
                taken.add((point.client, point.txn_size, point.delivery))
            else:
                assert (point.client, point.txn_size, Delivery.TRANSACTIONS) in taken


def test_rounds_begin_at_different_points_and_deliveries():
    points = BenchRequest().points()
    rounds = [order_round(points, n, 0) for n in range(3)]
    assert len({order[0].group for order in rounds}) == 3
    largest = [next(one for one in order if one.txn_size == 10_000) for order in rounds]
    assert {one.delivery for one in largest} == {BASELINE, Delivery.IDEMPOTENT, Delivery.TRANSACTIONS}


def test_the_same_seed_gives_the_same_order_and_another_one_another():
    points = BenchRequest().points()
    assert order_round(points, 1, 7) == order_round(points, 1, 7) != order_round(points, 1, 8)


def test_every_size_client_and_delivery_is_there():
    points = BenchRequest().points()
    for client in ("librdkafka", "java"):
        for size in (1, 10, 100, 1_000, 10_000):
            for delivery in (Delivery.AT_LEAST_ONCE, Delivery.IDEMPOTENT, Delivery.TRANSACTIONS):
                assert any(
                    (one.client, one.txn_size, one.delivery) == (client, size, delivery) for one in points
                )
    assert {one.partitions for one in points} == {1, 6, 24}
    assert {one.workers for one in points} == {1, 3}
    assert not all(one.journal for one in points)


def test_a_quick_bench_takes_less_than_three_minutes_and_a_default_one_some():
    assert QUICK.planned_s < 180
    assert 300 < BenchRequest().planned_s < 1_200
