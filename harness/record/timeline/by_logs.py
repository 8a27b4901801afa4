"""Transactions and commits as the brokers stored them: for custom pipelines, whose programs keep no journals.

Transactions are read from the transaction log: from Ongoing to CompleteCommit or CompleteAbort. A transaction is
decided when its coordinator accepts the commit (PrepareCommit), and ends when the Complete record is written, after the
last marker. Its records are committed in a partition at the time stamp of the marker there. Transactions and records
outside the run are left out: a record may have the time stamp of an old input, or of a wrong clock.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.common.wording import plural
from harness.model.vocabulary import WARM_UP
from harness.record.table_reader import RunTables
from harness.record.timeline.markers import deciding_markers
from harness.record.timeline.model import BY_LOGS, COMMITS, TRANSACTIONS, Ending, Notes, Timeline

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


def load(
    t: RunTables, stages: Sequence[StageTopics], end_s: float = math.inf, *, with_commits: bool = True
) -> Timeline:
    """Return the timeline. Missing or damaged tables are noted. `end_s` is the end of the run, since its start."""
    notes = Notes()
    transactions = notes.read(partial(_transactions, t, stages, end_s, notes))
    commits = notes.read(partial(_commits, t, stages, end_s, notes)) if with_commits else None
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


def _transactions(t: RunTables, stages: Sequence[StageTopics], end_s: float, notes: Notes) -> pa.Table:
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


def _commits(t: RunTables, stages: Sequence[StageTopics], end_s: float, notes: Notes) -> pa.Table:
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
