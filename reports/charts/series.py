"""Throughput, latency and outcomes over time, from the tables of a run.

Tables are read in batches and summed by second. So the memory that is needed grows only with the length of the run, and
by one number for each committed operation, to count its records. Commit latencies are counted in sixteen bins for each
doubling, so a percentile is accurate to 3 %.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from harness.common.errors import UnreadableInput
from harness.model.vocabulary import Outcome
from harness.results.wording import printable
from reports.run_tables import RunTables

OK, ABORT, FAIL, INFO = "ok", "aborted on purpose", "fail", "info"
CATEGORIES = (OK, ABORT, FAIL, INFO)
MOST_BUCKETS = 120
BINS = 16
_WIDTHS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600)
_OPS = ("op", "stage", "f", "outcome", "asked", "call_ns", "commit_ns", "return_ns")


@dataclass
class Series:
    """Counts in buckets of `width_s` seconds. The first bucket begins with the run."""

    width_s: int = 1
    end_s: float = 1.0
    committed: Counter[int] = field(default_factory=Counter)
    records: Counter[int] = field(default_factory=Counter)
    latency: defaultdict[int, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    outcomes: defaultdict[tuple[str, str], Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    missing: list[str] = field(default_factory=list)
    categories: tuple[str, ...] = CATEGORIES
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


def read(t: RunTables, at_least_s: float = 1.0) -> Series:
    """Read the tables of a run into a series. Missing or damaged files are noted in `missing`. `at_least_s` is the
    least length of the run.
    """
    series = Series(end_s=max(1.0, at_least_s))
    committed_op: list[pa.Array] = []
    committed_at: list[pa.Array] = []
    try:
        for batch in t.batches("ops", _OPS):
            op, at = _add_operations(series, batch)
            committed_op.append(op)
            committed_at.append(at)
        if committed_op:
            _add_records(series, t, pa.concat_arrays(committed_op), committed_at)
    except (UnreadableInput, pa.ArrowException) as error:
        series.missing.append(printable(str(error), 300))
    return into_buckets(series)


def _add_operations(series: Series, batch: pa.RecordBatch) -> tuple[pa.Array, pa.Array]:
    """Count a batch of transactions. Returns the committed ones and their seconds."""
    txns = batch.filter(pc.fill_null(pc.equal(batch["f"], "txn"), False))
    ended_ns = pc.fill_null(pc.coalesce(txns["return_ns"], txns["call_ns"]), 0)
    at = pc.max_element_wise(pc.divide(ended_ns, 1_000_000_000), 0)
    is_ok = pc.fill_null(pc.equal(txns["outcome"], Outcome.OK.value), False)
    is_fail = pc.fill_null(pc.equal(txns["outcome"], Outcome.FAIL.value), False)
    to_abort = pc.fill_null(pc.equal(txns["asked"], "abort"), False)
    category = pc.case_when(
        pc.make_struct(pc.and_(to_abort, pc.or_(is_ok, is_fail)), is_ok, is_fail), ABORT, OK, FAIL, INFO
    )
    table = pa.table({"stage": pc.fill_null(txns["stage"], "no stage"), "category": category, "at": at})
    for row in table.group_by(["stage", "category", "at"]).aggregate([([], "count_all")]).to_pylist():
        series.outcomes[row["stage"], row["category"]][row["at"]] += row["count_all"]
        series.end_s = max(series.end_s, row["at"] + 1.0)
    committed = pc.equal(category, OK)
    took_ns = pc.max_element_wise(pc.subtract(txns["return_ns"], txns["commit_ns"]), 1)
    bins = pc.cast(pc.floor(pc.multiply(pc.log2(pc.cast(took_ns, pa.float64())), float(BINS))), pa.int64())
    measured = pc.and_(committed, pc.and_(txns["commit_ns"].is_valid(), txns["return_ns"].is_valid()))
    table = pa.table({"at": at, "bin": bins}).filter(measured)
    for row in table.group_by(["at", "bin"]).aggregate([([], "count_all")]).to_pylist():
        series.latency[row["at"]][row["bin"]] += row["count_all"]
    for entry in pc.value_counts(at.filter(committed)).to_pylist():
        series.committed[entry["values"]] += entry["counts"]
    return txns["op"].filter(committed), at.filter(committed)


def _add_records(series: Series, t: RunTables, op: pa.Array, at: Sequence[pa.Array]) -> None:
    """Count the records of the committed operations, in the second of their commit."""
    seconds = pa.concat_arrays(at)
    for batch in t.batches("sends", ("op",)):
        when = seconds.take(pc.index_in(batch["op"], value_set=op).drop_null())
        for entry in pc.value_counts(when).to_pylist():
            series.records[entry["values"]] += entry["counts"]


def into_buckets(series: Series) -> Series:
    """Return the series in wider buckets, at most `MOST_BUCKETS` of them."""
    fits = (width for width in _WIDTHS_S if series.end_s / width <= MOST_BUCKETS)
    width = next(fits, math.ceil(series.end_s / MOST_BUCKETS))
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
