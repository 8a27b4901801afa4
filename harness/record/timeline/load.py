"""What happened in a run, on one time axis: the model, and its loaders for journals and brokers' logs.

In a journal, a transaction ends when its process gets the response to its commit. Its records are committed at that
time.

Programs of custom pipelines keep no journals. Their transactions are read from the transaction log: from Ongoing to
CompleteCommit or CompleteAbort. A transaction is decided when its coordinator accepts the commit (PrepareCommit), and
ends when the Complete record is written, after the last marker. Its records are committed in a partition at the time
stamp of the marker there. Transactions and records outside the run are left out: a record may have the time stamp of an
old input, or of a wrong clock.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.common.errors import UnreadableInput
from harness.common.wording import plural, printable
from harness.model import vocabulary
from harness.model.vocabulary import WARM_UP
from harness.record.table_reader import RunTables
from harness.record.timeline.partition_offsets import deciding_markers

NO_STAGE = "no stage"
_OPS = (
    *("op", "name", "journal", "stage", "f", "transactional_id", "outcome", "asked"),
    *("call_ns", "commit_ns", "return_ns", "fenced", "error"),
)


class Ending(StrEnum):
    """How a transaction ended. The brokers do not know why a transaction was aborted."""

    COMMITTED = "committed"
    ABORTED_ON_PURPOSE = "aborted on purpose"
    ABORTED = "aborted"
    FAILED = "failed"
    UNKNOWN = "unknown"
    OPEN = "left open"


BY_JOURNALS = (Ending.COMMITTED, Ending.ABORTED_ON_PURPOSE, Ending.FAILED, Ending.UNKNOWN)
"""The endings in journals, in the order of display."""
BY_LOGS = (Ending.COMMITTED, Ending.ABORTED, Ending.OPEN)
"""The endings in broker logs, in the order of display."""

TRANSACTIONS = pa.schema(
    [
        ("name", pa.string()),  # the operation (`shop-2.1:10`); null: from the broker logs
        ("transactional_id", pa.string()),
        ("stage", pa.string()),
        ("process", pa.string()),  # the journal of the worker; null: not known
        ("begin_ns", pa.int64()),
        (
            "decided_ns",
            pa.int64(),
        ),  # when its commit was requested, or accepted by the coordinator; null: it was not
        ("end_ns", pa.int64()),  # when it ended for its client, or for the coordinator; null: it did not
        ("ending", pa.string()),
        ("fenced", pa.bool_()),  # null: not known
        ("error", pa.string()),
    ]
)
"""One row for each transaction of the pipeline."""

COMMITS = pa.schema([("tp", pa.int32()), ("time_ns", pa.int64()), ("records", pa.int64())])
"""One row for each partition of each commit: when its records became visible, and how many they are. A batch outside
transactions is a commit of its own.
"""


@dataclass(frozen=True)
class Timeline:
    """The transactions and commits of a run. Each table is empty if it cannot be read; `missing` says why."""

    transactions: pa.Table = field(default_factory=TRANSACTIONS.empty_table)
    commits: pa.Table = field(default_factory=COMMITS.empty_table)
    endings: tuple[Ending, ...] = BY_JOURNALS
    by_logs: bool = False
    missing: list[str] = field(default_factory=list)


T = TypeVar("T")


@dataclass
class Notes:
    """Collects the notes."""

    texts: list[str] = field(default_factory=list)

    def read(self, load: Callable[[], T]) -> T | None:
        """Return what `load` returns. None, and a note, if a table is missing or damaged or has other types."""
        try:
            return load()
        except (UnreadableInput, TypeError, ValueError, pa.ArrowException) as error:
            self.texts.append(printable(str(error), 300))
            return None


def load_from_journals(t: RunTables, *, with_commits: bool = True) -> Timeline:
    """Return the timeline. Missing or damaged tables are noted."""
    notes = Notes()
    ops = notes.read(partial(_journaled_transactions, t))
    if ops is None:
        return Timeline(missing=notes.texts)
    transactions = ops.select(TRANSACTIONS.names).cast(TRANSACTIONS)
    commits = notes.read(partial(_journaled_commits, t, ops)) if with_commits else None
    return Timeline(
        transactions, COMMITS.empty_table() if commits is None else commits, BY_JOURNALS, False, notes.texts
    )


def _journaled_transactions(t: RunTables) -> pa.Table:
    """Return the columns of `TRANSACTIONS`, and `op`."""
    ops = t.table("ops", _OPS, f=["txn"])
    ok = pc.fill_null(pc.equal(ops["outcome"], vocabulary.Outcome.OK.value), False)
    failed = pc.fill_null(pc.equal(ops["outcome"], vocabulary.Outcome.FAIL.value), False)
    to_abort = pc.fill_null(pc.equal(ops["asked"], "abort"), False)
    ending = pc.case_when(
        pc.make_struct(pc.and_(to_abort, pc.or_(ok, failed)), ok, failed),
        Ending.ABORTED_ON_PURPOSE.value,
        Ending.COMMITTED.value,
        Ending.FAILED.value,
        Ending.UNKNOWN.value,
    )
    columns = {
        "op": ops["op"],
        "name": ops["name"],
        "transactional_id": ops["transactional_id"],
        "stage": pc.fill_null(ops["stage"], NO_STAGE),
        "process": ops["journal"],
        "begin_ns": ops["call_ns"],
        "decided_ns": ops["commit_ns"],
        "end_ns": ops["return_ns"],
        "ending": ending,
        "fenced": ops["fenced"],
        "error": ops["error"],
    }
    return pa.table(columns)


def _journaled_commits(t: RunTables, transactions: pa.Table) -> pa.Table:
    """Return `COMMITS`: the acknowledged records of the committed transactions, by transaction and partition."""
    committed = transactions.filter(
        pc.and_(pc.equal(transactions["ending"], Ending.COMMITTED.value), transactions["end_ns"].is_valid())
    ).select(["op", "end_ns"])
    sends = t.table("sends", ("op", "tp"))
    by_op = sends.group_by(["op", "tp"]).aggregate([([], "count_all")])
    joined = by_op.join(committed, "op", join_type="inner")
    return pa.table(
        {"tp": joined["tp"], "time_ns": joined["end_ns"], "records": joined["count_all"]}, schema=COMMITS
    )


UNNAMED = "all programs"
"""The stage of the transactions whose transactional id no stage declares."""
_STATES = ("transactional_id", "log_tp", "log_offset", "state", "start_ms", "update_ms")
_ENDS = {"CompleteCommit": Ending.COMMITTED, "CompleteAbort": Ending.ABORTED}


@dataclass(frozen=True)
class StageTopics:
    """The topics and transactional ids of a stage."""

    name: str
    topics: frozenset[str] = frozenset()  # the topics that it writes
    # By transactional id: its instance. Empty if they are not known.
    processes: Mapping[str, str] = field(default_factory=dict)


def stages_without_journals(settings: Mapping[str, Any]) -> list[StageTopics]:
    """Return the stages in the settings of a run. Empty if a stage keeps journals, or if the settings are damaged."""
    workload = settings.get("workload")
    stages = workload.get("stages") if isinstance(workload, Mapping) else None
    stage_topics = []
    for stage in stages if isinstance(stages, list) else ():
        if not isinstance(stage, Mapping) or stage.get("journaled") is not False:
            return []
        ids = stage.get("transactional_ids")
        instances = {str(own): str(name) for name, own in ids.items()} if isinstance(ids, Mapping) else {}
        topics = stage.get("writes")
        written = topics if isinstance(topics, list) else ()
        stage_topics.append(StageTopics(str(stage.get("name")), frozenset(map(str, written)), instances))
    return stage_topics


def load_from_logs(
    t: RunTables, stages: Sequence[StageTopics], end_s: float = math.inf, *, with_commits: bool = True
) -> Timeline:
    """Return the timeline. Missing or damaged tables are noted. `end_s` is the end of the run, since its start."""
    notes = Notes()
    transactions = notes.read(partial(_stored_transactions, t, stages, end_s, notes))
    commits = notes.read(partial(_stored_commits, t, stages, end_s, notes)) if with_commits else None
    return Timeline(
        TRANSACTIONS.empty_table() if transactions is None else transactions,
        COMMITS.empty_table() if commits is None else commits,
        BY_LOGS,
        True,
        notes.texts,
    )


def _ns(t: RunTables, wall_ms: Any) -> Any:
    """Convert a column of broker times to nanoseconds since the start of the run."""
    return pc.cast(
        pc.multiply(pc.subtract(pc.cast(wall_ms, pa.float64()), t.wall_ms_at_zero or 0.0), 1e6),
        pa.int64(),
        safe=False,
    )


def _stored_transactions(t: RunTables, stages: Sequence[StageTopics], end_s: float, notes: Notes) -> pa.Table:
    states = t.table("transactions", _STATES)
    own = pc.invert(pc.starts_with(states["transactional_id"], WARM_UP))
    states = states.filter(pc.and_(pc.fill_null(own, False), states["update_ms"].is_valid()))
    states = states.sort_by([(name, "ascending") for name in ("transactional_id", "log_tp", "log_offset")])
    if not len(states):
        return TRANSACTIONS.empty_table()
    states = states.append_column("written_ms", written_ms(t, states)).append_column(
        "txn", pa.array(_number(states))
    )
    by_txn = _summarise(states)
    began = by_txn["begin_ms"].is_valid()
    ended = by_txn["end_ms"].is_valid()
    if without_begin := len(by_txn.filter(pc.and_(ended, pc.invert(began)))):
        notes.texts.append(
            f"the transaction log has the end of {plural(without_begin, 'transaction')} without the start: "
            "they are not drawn"
        )
    by_txn = by_txn.filter(pc.and_(began, pc.or_(ended, by_txn["last"])))
    begin_ns, end_ns = (_ns(t, by_txn[name]) for name in ("begin_ms", "end_ms"))
    stage_of = {own: (stage.name, name) for stage in stages for own, name in stage.processes.items()}
    ids = by_txn["transactional_id"].to_pylist()
    table = pa.table(
        {
            "name": pa.nulls(len(by_txn), pa.string()),
            "transactional_id": ids,
            "stage": [stage_of.get(own, (UNNAMED, None))[0] for own in ids],
            "process": [stage_of.get(own, (UNNAMED, None))[1] for own in ids],
            "begin_ns": begin_ns,
            "decided_ns": _ns(t, by_txn["decided_ms"]),
            "end_ns": end_ns,
            "ending": pc.fill_null(by_txn["ending"], Ending.OPEN.value),
            "fenced": pa.nulls(len(by_txn), pa.bool_()),
            "error": pa.nulls(len(by_txn), pa.string()),
        },
        schema=TRANSACTIONS,
    )
    at_ns = pc.coalesce(table["end_ns"], table["begin_ns"])
    return table.filter(_in_run(at_ns, end_s))


def _in_run(time_ns: Any, end_s: float) -> Any:
    end_ns = 2**63 - 1 if math.isinf(end_s) else round((end_s + 1) * 1e9)
    return pc.and_(pc.greater_equal(time_ns, 0), pc.less(time_ns, end_ns))


def _number(states: pa.Table) -> np.ndarray:
    """Return for each state the number of its transaction. The states are in the order of their id and offset."""
    ids = (
        pc.dictionary_encode(states["transactional_id"])
        .combine_chunks()
        .indices.to_numpy(zero_copy_only=False)
    )
    state = states["state"]
    ends = pc.fill_null(pc.is_in(state, value_set=pa.array(list(_ENDS))), False).to_numpy(
        zero_copy_only=False
    )
    idle = pc.fill_null(pc.is_in(state, value_set=pa.array(["Empty", "Dead"])), False).to_numpy(
        zero_copy_only=False
    )
    begins = np.ones(len(ids), bool)
    begins[1:] = (ids[1:] != ids[:-1]) | ends[:-1] | idle[:-1] | idle[1:]
    return np.cumsum(begins)


def _summarise(states: pa.Table) -> pa.Table:
    """Return a row for each transaction, in the order of its id and offset."""
    state, update_ms = states["state"], states["update_ms"]
    ongoing = pc.equal(state, "Ongoing")
    started_ms = pc.if_else(pc.greater(states["start_ms"], 0), states["start_ms"], None)
    is_end = pc.is_in(state, value_set=pa.array(list(_ENDS)))
    endings = pc.if_else(pc.equal(state, "CompleteCommit"), Ending.COMMITTED.value, Ending.ABORTED.value)
    rows = pa.table(
        {
            "txn": states["txn"],
            "transactional_id": states["transactional_id"],
            "begin_ms": pc.if_else(ongoing, pc.coalesce(started_ms, update_ms), None),
            "decided_ms": pc.if_else(pc.equal(state, "PrepareCommit"), update_ms, None),
            "end_ms": pc.if_else(is_end, pc.coalesce(states["written_ms"], update_ms), None),
            "ending": pc.if_else(is_end, endings, None),
        }
    )
    by_txn = rows.group_by(["txn", "transactional_id"]).aggregate(
        [("begin_ms", "min"), ("decided_ms", "max"), ("end_ms", "max"), ("ending", "max")]
    )
    by_txn = by_txn.rename_columns(
        ["txn", "transactional_id", "begin_ms", "decided_ms", "end_ms", "ending"]
    ).sort_by("txn")
    ids = (
        pc.dictionary_encode(by_txn["transactional_id"])
        .combine_chunks()
        .indices.to_numpy(zero_copy_only=False)
    )
    last = np.ones(len(ids), bool)  # the last transaction of its id
    last[:-1] = ids[1:] != ids[:-1]
    return by_txn.append_column("last", pa.array(last))


def stored_states(t: RunTables, **wanted: Collection[object]) -> list[dict[str, Any]]:
    """Return the states in the transaction log, in the order of the log; empty if it is not stored.

    A row has also `at_ns`: when the coordinator decided the state. A transaction is complete when the record of the
    state was written, after the markers, as far as the log is stored.
    """
    if not t.exists("transactions") or any(not values for values in wanted.values()):
        return []
    states = t.table("transactions", None, **wanted)
    states = states.sort_by([("log_tp", "ascending"), ("log_offset", "ascending")])
    times_ms = state_times_ms(t, states).to_pylist()
    return [{**row, "at_ns": t.at_ns(at_ms)} for row, at_ms in zip(states.to_pylist(), times_ms, strict=True)]


def state_times_ms(t: RunTables, states: pa.Table) -> pa.ChunkedArray:
    """Return for each state its time on the brokers' clock, as `stored_states` defines it."""
    if not len(states) or not t.exists("batches"):
        return states["update_ms"]
    complete = pc.fill_null(pc.starts_with(states["state"], "Complete"), False)
    return pc.if_else(complete, pc.coalesce(written_ms(t, states), states["update_ms"]), states["update_ms"])


def written_ms(t: RunTables, states: pa.Table) -> Any:
    """Return for each state when its record was written. Null: the log is not stored.

    A record holds only the time at which its state was decided. CompleteCommit is decided before the markers are
    written, but its record is written after them.
    """
    logs = pc.unique(states["log_tp"]).to_pylist()
    batches = t.table(
        "batches", ("tp", "base_offset", "last_offset", "max_timestamp_ms"), leader=[True], tp=logs
    )
    if not len(batches):
        return pa.nulls(len(states), pa.int64())
    batches = batches.sort_by([("tp", "ascending"), ("base_offset", "ascending")])
    tp, base, last = (batches[name].to_numpy() for name in ("tp", "base_offset", "last_offset"))
    # One number for a position, so that one search finds the batch.
    width = max(int(last.max()), int(pc.max(states["log_offset"]).as_py())) + 1
    wanted = states["log_tp"].to_numpy().astype(np.int64) * width + states["log_offset"].to_numpy()
    found = np.searchsorted(tp.astype(np.int64) * width + base, wanted, side="right") - 1
    inside = (found >= 0) & (wanted <= tp[found].astype(np.int64) * width + last[found])
    return pa.array(batches["max_timestamp_ms"].to_numpy()[found], mask=~inside)


def _stored_commits(t: RunTables, stages: Sequence[StageTopics], end_s: float, notes: Notes) -> pa.Table:
    """Return `COMMITS` of the topics that stages write, from the leaders' logs."""
    topics = {topic for stage in stages for topic in stage.topics}
    written = [tp for topic in topics for tp in t.partitions_of(topic)]
    if not written:
        return COMMITS.empty_table()
    batches = deciding_markers(t, written)
    committed = pc.or_(
        pc.invert(batches["transactional"]), pc.fill_null(pc.equal(batches["marker"], "commit"), False)
    )
    batches = batches.filter(committed)
    commits = pa.table(
        {
            "tp": batches["tp"],
            "time_ns": _ns(t, pc.coalesce(batches["marker_ms"], batches["max_timestamp_ms"])),
            "records": batches["count"],
        }
    )
    commits = (
        commits.group_by(["tp", "time_ns"]).aggregate([("records", "sum")]).rename_columns(COMMITS.names)
    )
    inside = _in_run(commits["time_ns"], end_s)
    if outside := pc.sum(commits.filter(pc.invert(inside))["records"]).as_py():
        notes.texts.append(
            f"the time stamps of {plural(outside, 'record')} are outside the run: they are not drawn"
        )
    return commits.filter(inside).cast(COMMITS)


def load(t: RunTables, end_s: float = math.inf, *, with_commits: bool = True) -> Timeline:
    """Return the timeline of a run: from the broker logs if no stage keeps a journal, and else from the journals.

    `end_s` is the end of the run, in seconds since its start. Missing or damaged tables are noted. `with_commits` False
    leaves the table of the commits empty, which saves time.
    """
    if reads_logs(t):
        stages = stages_without_journals(t.settings)
        return load_from_logs(t, stages, end_s, with_commits=with_commits)
    return load_from_journals(t, with_commits=with_commits)


def reads_logs(t: RunTables) -> bool:
    """Return whether `load` reads the broker logs."""
    return t.wall_ms_at_zero is not None and bool(stages_without_journals(t.settings))
