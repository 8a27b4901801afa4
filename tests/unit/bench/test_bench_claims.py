"""Claims about the cost of transactions are confirmed or refuted by planted ratios."""

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
    return {claim.name: claim for claim in check_claims(measured)}


def test_without_measurements_no_claim_is_answered():
    assert {claim.answer for claim in check_claims([])} == {ClaimResult.NOT_MEASURED}


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
def test_a_ratio_confirms_a_claim_if_it_is_in_the_interval_of_the_claim(values, figure, confirmed):
    answered = answers(ratio(*values, figure=figure))
    about_figure = {claim.name for claim in CLAIMS if claim.figure == figure}
    for name in about_figure:
        assert answered[name].answer is (
            ClaimResult.CONFIRMED if name in confirmed else ClaimResult.REFUTED
        ), name
    assert all(
        answered[claim.name].answer is ClaimResult.NOT_MEASURED
        for claim in CLAIMS
        if claim.name not in about_figure
    )


def test_a_claim_that_holds_for_some_points_depends_on_their_difference():
    claim = answers(
        ratio(0.97, 0.98, 0.96, txn_size=10_000),
        ratio(0.1, 0.2, 0.1, txn_size=1),
        ratio(0.2, 0.2, 0.2, txn_size=10),
    )["cost-3-5"]
    assert claim.answer is ClaimResult.DEPENDS
    assert claim.depends_on == ("transaction size",)
    assert len(claim.holds) == 1
    assert len(claim.fails) == 2
    assert "10,000" in claim.holds[0]


def test_points_that_differ_in_two_parameters_show_no_dependence():
    claim = answers(ratio(0.97, client="java"), ratio(0.1, client="librdkafka", txn_size=1))["cost-3-5"]
    assert (claim.answer, claim.depends_on) == (ClaimResult.DEPENDS, ())


def test_a_claim_is_unclear_if_the_rounds_disagree():
    claim = answers(ratio(0.80, 0.97, 0.85))["cost-3-5"]
    assert claim.answer is ClaimResult.UNCLEAR
    assert not claim.fails


def test_only_transactional_pipelines_with_a_journal_count():
    claim = answers(ratio(0.97, journal=False), ratio(0.97, delivery=Delivery.IDEMPOTENT))
    assert claim["cost-3-5"].answer is ClaimResult.NOT_MEASURED


@pytest.mark.parametrize(
    ("small", "large", "answer"),
    [
        ((0.1, 0.2), (0.9, 0.95), ClaimResult.CONFIRMED),
        ((0.9, 0.95), (0.1, 0.2), ClaimResult.REFUTED),
        ((0.5, 0.9), (0.6, 0.95), ClaimResult.UNCLEAR),
    ],
)
def test_larger_transactions_amortise_the_cost_if_all_rounds_agree(small, large, answer):
    claim = answers(ratio(*large, txn_size=10_000), ratio(*small, txn_size=1), ratio(0.5, 0.5, txn_size=100))
    assert claim["amortised"].answer is answer


def test_amortisation_is_not_measured_with_one_transaction_size():
    assert answers(ratio(0.5, 0.5))["amortised"].answer is ClaimResult.NOT_MEASURED
