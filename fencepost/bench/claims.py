"""Common claims about the cost of transactions, compared with the measurements.

A claim is an interval. A measurement is inside it or outside. Claims about latency quote milliseconds of another
machine, so only the factor between the two quoted numbers is compared.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from fencepost.bench.figures import Ratio, Spread
from fencepost.bench.plan import BenchPoint, MeasurementKind, describe
from workloads.model.policy import Delivery


class ClaimResult(StrEnum):
    """The result of comparing a claim with the measurements."""

    CONFIRMED = "confirmed"  # at every point
    DEPENDS = "depends"  # confirmed at some points, and not at others
    REFUTED = "refuted"  # at every point
    UNCLEAR = "unclear"  # confirmed at no point, but the spread is too wide to refute it
    NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class Claim:
    """A claim: the figure that it is about, and the interval in which the measured value must be."""

    name: str
    text: str
    figure: str  # throughput (cost in per cent), or a quantile (factor by which latency grows)
    low: float
    high: float

    def shown(self, spread: Spread) -> Spread:
        """Convert a ratio to the unit of the claim."""
        if self.figure == MeasurementKind.THROUGHPUT:
            return Spread(tuple(100 * (1 - value) for value in spread.values))
        return spread

    def holds(self, spread: Spread) -> bool | None:
        """True if the median is in the interval. None if it is not, but the spread overlaps the interval."""
        shown = self.shown(spread)
        if self.low <= shown.median <= self.high:
            return True
        return False if shown.high < self.low or shown.low > self.high else None


CLAIMS = (
    Claim(
        "cost-3-5", "transactions cost 3 to 5 % of throughput", MeasurementKind.THROUGHPUT, float("-inf"), 5.0
    ),
    Claim("cost-30-50", "transactions cost 30 to 50 % of throughput", MeasurementKind.THROUGHPUT, 30.0, 50.0),
    Claim("cost-40", "transactions cost 40 % of throughput", MeasurementKind.THROUGHPUT, 35.0, 45.0),
    Claim("p50-5-25", "the median latency grows from 5 ms to 15 to 25 ms", "p50", 3.0, 5.0),
    Claim("p99-20-100", "the 99th percentile grows from 20 ms to 50 to 100 ms", "p99", 2.5, 5.0),
    Claim("p99-2-8", "the 99th percentile grows from 2 ms to 8 ms", "p99", 3.0, 5.0),
)
INTERVALS = {
    "cost-3-5": "a cost of at most 5 %",
    "cost-30-50": "a cost from 30 to 50 %",
    "cost-40": "a cost from 35 to 45 %",
    "p50-5-25": "a factor from 3 to 5",
    "p99-20-100": "a factor from 2.5 to 5",
    "p99-2-8": "a factor from 3 to 5",
    "amortised": "the ratio at the largest size above that at the smallest, in every round",
}
"""The criterion of each claim, in words."""
AMORTISED = "larger transactions amortise the cost"


@dataclass(frozen=True)
class AnsweredClaim:
    """A claim with its result, and the points at which it holds or fails."""

    name: str
    text: str
    decided_by: str
    answer: ClaimResult
    holds: tuple[str, ...]  # the points, in words
    fails: tuple[str, ...]
    unclear: tuple[str, ...]
    depends_on: tuple[str, ...]  # dimensions that separate points where it holds from points where it fails

    def as_table(self) -> dict[str, Any]:
        """Convert to JSON."""
        return {
            **{name: value for name, value in vars(self).items() if name != "answer"},
            "answer": self.answer.value,
        }


def check_claims(all_ratios: Sequence[Ratio]) -> list[AnsweredClaim]:
    """Compare every claim with the measurements, in the order of `CLAIMS`."""
    transactions = [
        ratio for ratio in all_ratios if ratio.point.delivery is Delivery.TRANSACTIONS and ratio.point.journal
    ]
    return [*(_compare(claim, transactions) for claim in CLAIMS), _amortised(transactions)]


def _compare(claim: Claim, all_ratios: Sequence[Ratio]) -> AnsweredClaim:
    ratios = [ratio for ratio in all_ratios if ratio.figure == claim.figure]
    compared = [(ratio, claim.holds(ratio.spread)) for ratio in ratios]

    def with_outcome(outcome: bool | None) -> list[Ratio]:
        return [ratio for ratio, holds in compared if holds is outcome]

    holds, fails, unclear = (
        tuple(_in_words(claim, ratio) for ratio in with_outcome(outcome)) for outcome in (True, False, None)
    )
    answer = _answer(len(holds), len(fails), len(unclear))
    decided_by, depends_on = INTERVALS[claim.name], _depends_on(with_outcome(True), with_outcome(False))
    return AnsweredClaim(claim.name, claim.text, decided_by, answer, holds, fails, unclear, depends_on)


def _answer(holds: int, fails: int, unclear: int) -> ClaimResult:
    if not holds + fails + unclear:
        return ClaimResult.NOT_MEASURED
    if not holds:
        return ClaimResult.UNCLEAR if unclear else ClaimResult.REFUTED
    return ClaimResult.DEPENDS if fails or unclear else ClaimResult.CONFIRMED


def _in_words(claim: Claim, ratio: Ratio) -> str:
    """`librdkafka, 100 inputs: 41 % (38 to 44)`."""
    shown = claim.shown(ratio.spread)
    if claim.figure == MeasurementKind.THROUGHPUT:
        return f"{describe(ratio.point)}: costs {shown.median:.0f} % ({shown.low:.0f} to {shown.high:.0f})"
    return (
        f"{describe(ratio.point)}: x {shown.median:.1f} ({shown.low:.1f} to {shown.high:.1f}), "
        f"from {ratio.base:.3g} to {ratio.own:.3g} ms"
    )


_DIMENSIONS: dict[str, Callable[[BenchPoint], object]] = {
    "client": lambda point: point.client,
    "transaction size": lambda point: point.txn_size,
    "partitions": lambda point: point.partitions,
    "workers": lambda point: point.workers,
}


def _depends_on(holds: Sequence[Ratio], fails: Sequence[Ratio]) -> tuple[str, ...]:
    """Dimensions that alone distinguish a point where the claim holds from a point where it fails."""
    deciding = []
    for confirmed in holds:
        for refuted in fails:
            differing = [
                name for name, value in _DIMENSIONS.items() if value(confirmed.point) != value(refuted.point)
            ]
            if len(differing) == 1:
                deciding += differing
    return tuple(name for name in _DIMENSIONS if name in deciding)


def _amortised(all_ratios: Sequence[Ratio]) -> AnsweredClaim:
    """Compare, for each client, the ratios at the largest and the smallest transaction size, across all rounds."""
    throughput = [ratio for ratio in all_ratios if ratio.figure == MeasurementKind.THROUGHPUT]
    series: dict[tuple[str, int, int], list[Ratio]] = {}
    for ratio in throughput:
        series.setdefault((ratio.point.client, ratio.point.partitions, ratio.point.workers), []).append(ratio)
    texts: dict[bool | None, list[str]] = {True: [], False: [], None: []}
    for ratios in series.values():
        smallest, *_, largest = sorted(ratios, key=lambda ratio: ratio.point.txn_size) * (
            1 if len(ratios) > 1 else 2
        )
        if smallest.point == largest.point:
            continue
        if largest.spread.low > smallest.spread.high:
            above: bool | None = True
        else:
            above = False if largest.spread.high < smallest.spread.low else None
        texts[above].append(
            f"{smallest.point.client}: {_share(smallest)} of the baseline at {smallest.point.txn_size:,}, "
            f"{_share(largest)} at {largest.point.txn_size:,}"
        )
    holds, fails, unclear = (tuple(texts[above]) for above in (True, False, None))
    answer = _answer(len(holds), len(fails), len(unclear))
    depends_on = ("client",) if holds and fails else ()
    return AnsweredClaim(
        "amortised", AMORTISED, INTERVALS["amortised"], answer, holds, fails, unclear, depends_on
    )


def _share(ratio: Ratio) -> str:
    return f"{100 * ratio.spread.median:.0f} %"
