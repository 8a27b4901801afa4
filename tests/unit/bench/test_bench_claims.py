"""Quoted figures are confirmed or refuted by planted ratios, and by nothing else."""

from dataclasses import replace

import pytest

from fencepost.bench.claims import CLAIMS, AnsweredClaim, ClaimResult, check_claims
from fencepost.bench.figures import Ratio, Spread
from fencepost.bench.plan import BenchPoint, MeasurementKind
from workloads.model.policy import Delivery

POINT = BenchPoint(MeasurementKind.THROUGHPUT, Delivery.TRANSACTIONS, "java", 100, 6)


def ratio(*values: float, figure: str = MeasurementKind.THROUGHPUT, **changes) -> Ratio:
    return Ratio(replace(POINT, **changes), figure, Spread(values), own=values[0] * 5, base=5.0)


def answers(*measured: Ratio) -> dict[str, AnsweredClaim]:
    return {one.name: one for one in check_claims(measured)}


def test_nothing_measured_confirms_nothing():
    assert {one.answer for one in check_claims([])} == {ClaimResult.NOT_MEASURED}


@pytest.mark.parametrize(
    ("values", "figure", "confirmed"),
    [
        ((0.97, 0.96, 0.98), "throughput", {"cost-3-5"}),
        ((1.02, 1.0, 1.01), "throughput", {"cost-3-5"}),
        ((0.6, 0.61, 0.59), "throughput", {"cost-30-50", "cost-40"}),
        ((0.52, 0.53, 0.51), "throughput", {"cost-30-50"}),
        ((0.1, 0.11, 0.12), "throughput", set()),
        ((4.0, 3.9, 4.1), "p50", {"p50-5-25"}),
        ((9.0, 9.5, 8.0), "p50", set()),
        ((4.0, 3.5, 4.5), "p99", {"p99-20-100", "p99-2-8"}),
        ((2.6, 2.7, 2.8), "p99", {"p99-20-100"}),
        ((1.0, 1.1, 1.0), "p99", set()),
    ],
)
def test_a_figure_confirms_the_claims_in_whose_interval_it_lies_and_refutes_the_others(
    values, figure, confirmed
):
    found = answers(ratio(*values, figure=figure))
    asked = {claim.name for claim in CLAIMS if claim.figure == figure}
    for name in asked:
        assert found[name].answer is (ClaimResult.CONFIRMED if name in confirmed else ClaimResult.REFUTED), (
            name
        )
    assert all(
        found[claim.name].answer is ClaimResult.NOT_MEASURED for claim in CLAIMS if claim.name not in asked
    )


def test_a_claim_that_holds_for_some_depends_on_what_tells_them_apart():
    found = answers(
        ratio(0.97, 0.98, 0.96, txn_size=10_000),
        ratio(0.1, 0.2, 0.1, txn_size=1),
        ratio(0.2, 0.2, 0.2, txn_size=10),
    )["cost-3-5"]
    assert found.answer is ClaimResult.DEPENDS
    assert found.depends_on == ("transaction size",)
    assert len(found.holds) == 1
    assert len(found.fails) == 2
    assert "10,000" in found.holds[0]


def test_what_differs_in_two_things_tells_neither():
    found = answers(ratio(0.97, client="java"), ratio(0.1, client="librdkafka", txn_size=1))["cost-3-5"]
    assert (found.answer, found.depends_on) == (ClaimResult.DEPENDS, ())


def test_rounds_that_disagree_refute_nothing():
    found = answers(ratio(0.80, 0.97, 0.85))["cost-3-5"]
    assert found.answer is ClaimResult.UNCLEAR
    assert not found.fails


def test_pipelines_without_a_journal_and_without_transactions_are_not_asked():
    found = answers(ratio(0.97, journal=False), ratio(0.97, delivery=Delivery.IDEMPOTENT))
    assert found["cost-3-5"].answer is ClaimResult.NOT_MEASURED


@pytest.mark.parametrize(
    ("small", "large", "answer"),
    [
        ((0.1, 0.2), (0.9, 0.95), ClaimResult.CONFIRMED),
        ((0.9, 0.95), (0.1, 0.2), ClaimResult.REFUTED),
        ((0.5, 0.9), (0.6, 0.95), ClaimResult.UNCLEAR),
    ],
)
def test_larger_transactions_amortise_where_no_round_says_otherwise(small, large, answer):
    found = answers(ratio(*large, txn_size=10_000), ratio(*small, txn_size=1), ratio(0.5, 0.5, txn_size=100))
    assert found["amortised"].answer is answer


def test_one_size_amortises_nothing():
    assert answers(ratio(0.5, 0.5))["amortised"].answer is ClaimResult.NOT_MEASURED
