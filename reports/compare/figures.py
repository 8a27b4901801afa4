"""Throughput and commit latency of one run."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from harness.record.table_reader import RunTables
from harness.record.timeline.load import Ending, Timeline, load
from harness.results.run_metadata import RunMetadata
from harness.results.verdict import FaultReport

LOAD_PHASE = "faults"
"""The phase of a run during which inputs arrive."""
TRANSACTIONS, RECORDS = "transactions_per_s", "records_per_s"
EARLY_MEDIAN, EARLY_P99 = "median_before_faults_ms", "p99_before_faults_ms"
MEDIAN, P99 = "median_ms", "p99_ms"
OTHER_CLOCK = (
    "the brokers' clocks are not this machine's, so their times are not compared with those of the run"
)


@dataclass(frozen=True)
class Figures:
    """The figures that are known, by name: rates per second, and latencies of commits in milliseconds."""

    known: Mapping[str, float] = field(default_factory=dict)
    by_logs: bool = False  # read from the broker logs, because no worker keeps a journal
    notes: Sequence[str] = ()  # why figures are not known


def measure(folder: Path, metadata: RunMetadata, faults: Sequence[FaultReport]) -> Figures:
    """Measure the run in `folder`. A figure without evidence is not known."""
    timeline = _read_timeline(folder, metadata)
    committed = _committed(timeline.transactions)
    known = _latencies(committed, MEDIAN, P99)
    if timeline.by_logs and not _on_one_clock(folder):
        return Figures(known, True, [*timeline.missing, OTHER_CLOCK])
    first_fault_s = min((fault.start_s for fault in faults), default=math.inf)
    known |= _latencies(_ended_before(committed, first_fault_s), EARLY_MEDIAN, EARLY_P99)
    known |= _rates(timeline, _load_s(metadata))
    return Figures(known, timeline.by_logs, timeline.missing)


def _read_timeline(folder: Path, metadata: RunMetadata) -> Timeline:
    return load(RunTables(folder), max((phase.end_s for phase in metadata.phases), default=math.inf))


def _on_one_clock(folder: Path) -> bool:
    run = RunTables(folder).settings.get("run")
    promises = run.get("promises") if isinstance(run, Mapping) else None
    return isinstance(promises, Mapping) and promises.get("one_clock") is True


def _load_s(metadata: RunMetadata) -> tuple[float, float] | None:
    """Return when the load began and ended. None: it is not known, or there was no load."""
    phases = [phase for phase in metadata.phases if phase.name == LOAD_PHASE and phase.end_s > phase.start_s]
    return (phases[0].start_s, phases[0].end_s) if phases else None


def _rates(timeline: Timeline, load_s: tuple[float, float] | None) -> dict[str, float]:
    """Return the rates during the load. A table without rows proves no rate of 0, unless the other table was read."""
    if load_s is None:
        return {}
    begin_ns, end_ns = (round(at_s * 1e9) for at_s in load_s)

    def during_load(times_ns: pa.ChunkedArray) -> pa.ChunkedArray:
        within = pc.and_(pc.greater_equal(times_ns, begin_ns), pc.less(times_ns, end_ns))
        return pc.fill_null(within, False)

    rates = {}
    transactions, commits = timeline.transactions, timeline.commits
    if len(transactions):
        count = pc.sum(during_load(_committed(transactions)["end_ns"])).as_py() or 0
        rates[TRANSACTIONS] = count / (load_s[1] - load_s[0])
    if len(commits) or (len(transactions) and not timeline.missing):
        count = pc.sum(commits["records"].filter(during_load(commits["time_ns"]))).as_py() or 0
        rates[RECORDS] = count / (load_s[1] - load_s[0])
    return rates


def _committed(transactions: pa.Table) -> pa.Table:
    return transactions.filter(pc.equal(transactions["ending"], Ending.COMMITTED.value))


def _ended_before(transactions: pa.Table, at_s: float) -> pa.Table:
    if math.isinf(at_s):
        return transactions
    return transactions.filter(pc.less(transactions["end_ns"], round(at_s * 1e9)))


def _latencies(committed: pa.Table, median: str, p99: str) -> dict[str, float]:
    """Return median and 99th percentile of the time from the decision to commit until the commit ended.

    A quantile is the nearest rank. Empty if no commit was measured.
    """
    took_ns = pc.max_element_wise(
        pc.subtract(committed["end_ns"], committed["decided_ns"]), 0, skip_nulls=False
    )
    took_ns = took_ns.drop_null()
    if not len(took_ns):
        return {}
    ordered = took_ns.take(pc.sort_indices(took_ns))
    return {
        name: ordered[math.ceil(len(ordered) * share) - 1].as_py() / 1e6
        for name, share in ((median, 0.5), (p99, 0.99))
    }
