"""Throughput, latency and outcomes over time: sums of a timeline's tables by second.

Commit latencies are counted in sixteen bins for each doubling, so a percentile is accurate to 3 %.
"""

import math
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from harness.record.timeline.load import BY_JOURNALS, Ending, Timeline

MOST_BUCKETS = 120
BINS = 16
_WIDTHS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600)


@dataclass
class Series:
    """Counts in buckets of `width_s` seconds. The first bucket begins with the run."""

    width_s: int = 1
    end_s: float = 1.0
    committed: Counter[int] = field(default_factory=Counter)
    records: Counter[int] = field(default_factory=Counter)
    latency: defaultdict[int, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    outcomes: defaultdict[tuple[str, str], Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    categories: tuple[Ending, ...] = BY_JOURNALS
    """The ways in which a transaction can end, in the order of display."""
    by_logs: bool = False
    """True if the series was read from the broker logs, because no worker keeps a journal."""

    @property
    def buckets(self) -> range:
        """The buckets from the first transaction that ended, or the first record, to the end of the run."""
        last = max(1, math.ceil(self.end_s / self.width_s))
        counted = [*self.outcomes.values(), *([self.records] if self.by_logs else [])]
        first = min((bucket for counts in counted for bucket in counts), default=0)
        return range(min(first, last - 1), last)

    @property
    def stages(self) -> list[str]:
        """All stages with a transaction."""
        return sorted({stage for stage, _ in self.outcomes})

    def ended(self, stage: str, category: str) -> Counter[int]:
        """Return by bucket how many transactions of a stage ended in this way."""
        return self.outcomes.get((stage, category), Counter())

    def quantile_ms(self, bucket: int, share: float) -> float | None:
        """Return a quantile of the commit latency in a bucket, by nearest rank. None: the bucket has no commit."""
        bins = self.latency.get(bucket)
        if not bins:
            return None
        rank = math.ceil(sum(bins.values()) * share)
        for number in sorted(bins):
            rank -= bins[number]
            if rank <= 0:
                return float(2 ** ((number + 0.5) / BINS)) / 1e6
        return None


def series(timeline: Timeline, at_least_s: float = 1.0) -> Series:
    """Return the sums of a timeline in at most `MOST_BUCKETS` buckets. `at_least_s` is the least length of the run."""
    return into_buckets(by_second(timeline, at_least_s))


def by_second(timeline: Timeline, at_least_s: float = 1.0) -> Series:
    """Return the sums of a timeline by second.

    A transaction counts in the second of its end, or of its begin if it has no end.
    """
    sums = Series(end_s=max(1.0, at_least_s), categories=timeline.endings, by_logs=timeline.by_logs)
    transactions, commits = timeline.transactions, timeline.commits
    at = _second(pc.coalesce(transactions["end_ns"], transactions["begin_ns"]))
    ends = pa.table({"stage": transactions["stage"], "ending": transactions["ending"], "at": at})
    for row in ends.group_by(["stage", "ending", "at"]).aggregate([([], "count_all")]).to_pylist():
        sums.outcomes[row["stage"], row["ending"]][row["at"]] += row["count_all"]
        if row["ending"] == Ending.COMMITTED:
            sums.committed[row["at"]] += row["count_all"]
    took_ns = pc.max_element_wise(
        pc.subtract(transactions["end_ns"], transactions["decided_ns"]), 500_000 if timeline.by_logs else 1
    )
    committed = pc.and_(pc.equal(transactions["ending"], Ending.COMMITTED.value), took_ns.is_valid())
    bins = pc.cast(pc.floor(pc.multiply(pc.log2(pc.cast(took_ns, pa.float64())), float(BINS))), pa.int64())
    for row in (
        pa.table({"at": at, "bin": bins})
        .filter(committed)
        .group_by(["at", "bin"])
        .aggregate([([], "count_all")])
        .to_pylist()
    ):
        sums.latency[row["at"]][row["bin"]] += row["count_all"]
    records = pa.table({"at": _second(commits["time_ns"]), "records": commits["records"]})
    for row in records.group_by("at").aggregate([("records", "sum")]).to_pylist():
        sums.records[row["at"]] += row["records_sum"]
    last = max(
        (*sums.records, *(second for counts in sums.outcomes.values() for second in counts)), default=0
    )
    sums.end_s = max(sums.end_s, last + 1.0)
    return sums


def _second(time_ns: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.max_element_wise(pc.divide(pc.fill_null(time_ns, 0), 1_000_000_000), 0)


def into_buckets(series: Series, most: int = MOST_BUCKETS) -> Series:
    """Return a series by second in wider buckets, at most `most` of them."""
    fits = (width for width in _WIDTHS_S if series.end_s / width <= most)
    width = next(fits, math.ceil(series.end_s / most))
    if width == 1:
        return series

    def fold(counts: Counter[int]) -> Counter[int]:
        folded: Counter[int] = Counter()
        for second, count in counts.items():
            folded[second // width] += count
        return folded

    wider = replace(
        series,
        width_s=width,
        committed=fold(series.committed),
        records=fold(series.records),
        latency=defaultdict(Counter),
        outcomes=defaultdict(Counter, {key: fold(counts) for key, counts in series.outcomes.items()}),
    )
    for second, bins in series.latency.items():
        wider.latency[second // width].update(bins)
    return wider
