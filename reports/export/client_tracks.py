"""The tracks of clients: operations of processes, transactions of transactional ids, polls of readers."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.model.vocabulary import WARM_UP, Outcome
from harness.record.table_reader import Row, RunTables
from harness.record.timeline.by_logs import written_ms
from harness.record.timeline.model import Ending, Timeline
from harness.results.verdict import FaultReport
from reports.export.sampling import Drawn, Intervals, Sampler, sample
from reports.export.tracks import Slice, Tracks, microseconds

PROCESSES, IDS, READERS = "processes", "transactional ids", "readers"
MOST_OPERATIONS = MOST_TRANSACTIONS = 100_000
MOST_POLLS = 40_000
SHORTEST_NS = 1_000_000
"""The length of a slice whose end is not known."""
CLOCK_NS = 2_000_000
"""Brokers write times in whole milliseconds."""
_OPS = (
    *("op", "name", "journal", "f", "outcome", "transactional_id", "call_ns", "commit_ns", "return_ns"),
    *("error", "fenced", "txn"),
)
_OUTCOME_COLORS = {Outcome.OK.value: "good", Outcome.FAIL.value: "bad", Outcome.INFO.value: "yellow"}
_ENDING_COLORS = {
    Ending.COMMITTED: "good",
    Ending.ABORTED_ON_PURPOSE: "grey",
    Ending.ABORTED: "bad",
    Ending.FAILED: "bad",
    Ending.UNKNOWN: "yellow",
    Ending.OPEN: "terrible",
}


def draw_processes(
    t: RunTables,
    timeline: Timeline,
    tracks: Tracks,
    near: Intervals,
    wanted: Collection[int],
    faults: Sequence[FaultReport],
    end_ns: float,
) -> Drawn:
    """Draw a thread for each worker and feeder: its operations; inside a transaction, its polls and its commit.

    An instance of a custom pipeline records no operations. Its thread has the transactions of its transactional ids,
    as far as the description of the pipeline or the requests of the instance say which these are. The faults of a
    worker or an instance are on another lane of its thread.

    A feeder sends without waiting for responses. So that it needs one lane, its slices end when the next one begins.
    """
    roles = {row["journal"]: row["role"] for row in t.rows("journals", role=["worker", "feeder"])}
    rows, drawn = _operations(t, roles, MOST_OPERATIONS, near, wanted)
    threads: dict[str, list[Slice]] = defaultdict(list)
    for journal, own in rows.items():
        is_feeder = roles[journal] == "feeder"
        threads[journal] = (
            _one_after_the_other([_operation(row) for row in own]) if is_feeder else _with_parts(own)
        )
    if timeline.by_logs:
        instances = _instances(t)
        observed = pc.is_in(
            timeline.transactions["transactional_id"], value_set=pa.array(sorted(instances), pa.string())
        )
        known = timeline.transactions.filter(pc.or_(timeline.transactions["process"].is_valid(), observed))
        transactions = sample(lambda: iter([known]), "begin_ns", Sampler(MOST_TRANSACTIONS, near))
        for row in [] if transactions is None else transactions.to_pylist():
            threads[instances.get(row["transactional_id"], row["process"])].append(_transaction(row, end_ns))
    for fault in faults:
        if (worker := fault.details.get("worker")) is not None:
            thread = worker if worker in roles or worker in threads else _instance(worker)
            healed_ns = end_ns if fault.end_s is None else fault.end_s * 1e9
            begin_us, end_us = microseconds(fault.start_s * 1e9), microseconds(healed_ns)
            threads[thread].append(Slice(f"fault: {fault.struck}", begin_us, end_us))
    for thread, slices in sorted(threads.items()):
        tracks.draw(PROCESSES, thread, slices)
    return drawn


def _instances(t: RunTables) -> dict[str, str]:
    """Return the thread of each transactional id that a protocol proxy has seen: the start of an instance (`bill-3.0`),
    or the instance (`bill-3`) if it used the id after several starts.
    """
    threads: dict[str, str] = {}
    for journal, client in t.metadata.program_clients.items():
        for own in client.transactional_ids:
            threads[own] = journal if own not in threads else _instance(journal)
    return threads


def _instance(journal: str) -> str:
    return journal.rpartition(".")[0] or journal


def draw_readers(t: RunTables, tracks: Tracks, near: Intervals, wanted: Collection[int]) -> Drawn:
    """Draw a thread for each observer and final reader: its polls, with the number of records that they returned."""
    roles = {row["journal"]: row["role"] for row in t.rows("journals", role=["observer", "final"])}
    rows, drawn = _operations(t, roles, MOST_POLLS, near, wanted)
    counts = _records_by_poll(t, [row["op"] for own in rows.values() for row in own])
    for journal, own in sorted(rows.items()):
        tracks.draw(READERS, journal, [_operation(row, records=counts.get(row["op"])) for row in own])
    return drawn


def draw_transactional_ids(
    t: RunTables, timeline: Timeline, tracks: Tracks, near: Intervals, end_ns: float
) -> dict[str, Drawn]:
    """Draw a thread for each transactional id: its transactions, and the coordinator's part of each, from
    PrepareCommit or PrepareAbort to Complete.

    The coordinator's part is inside its transaction, if it fits. Else it is on another lane: a client may get the
    response to its commit before the transaction is complete.
    """
    transactions = Sampler(MOST_TRANSACTIONS, near)
    kept = sample(lambda: iter([timeline.transactions]), "begin_ns", transactions)
    by_thread: dict[str, list[Slice]] = defaultdict(list)
    for row in [] if kept is None else kept.to_pylist():
        thread = row["transactional_id"] or row["process"] or "no transactional id"
        by_thread[thread].append(_transaction(row, end_ns))
    parts = Sampler(MOST_TRANSACTIONS, near)
    kept_parts = (
        sample(lambda: iter([completions(t)]), "prepared_ns", parts) if t.exists("transactions") else None
    )
    parts_by_thread: dict[str, list[Slice]] = defaultdict(list)
    for row in [] if kept_parts is None else kept_parts.to_pylist():
        parts_by_thread[row["transactional_id"]].append(_completion(row, end_ns))
    for thread in sorted(by_thread.keys() | parts_by_thread.keys()):
        roots = sorted(by_thread[thread], key=lambda each: each.begin_us)
        parts_in_order = sorted(parts_by_thread[thread], key=lambda each: each.begin_us)
        tracks.draw(IDS, thread, [*roots, *_nest(roots, parts_in_order)])
    return {
        "transactions": Drawn(transactions.kept, transactions.total),
        "coordinators' parts of transactions": Drawn(parts.kept, parts.total),
    }


def completions(t: RunTables) -> pa.Table:
    """Return the coordinators' parts of transactions: `transactional_id`, `state`, `prepared_ns`, `completed_ns`.

    `completed_ns` is null if the transaction log has no Complete record after the Prepare record.
    """
    states = t.table("transactions", ("transactional_id", "log_tp", "log_offset", "state", "update_ms"))
    own = pc.fill_null(pc.invert(pc.starts_with(states["transactional_id"], WARM_UP)), False)
    states = states.filter(pc.and_(own, states["update_ms"].is_valid()))
    states = states.sort_by([(name, "ascending") for name in ("transactional_id", "log_tp", "log_offset")])
    zero_ms = t.wall_ms_at_zero or 0.0
    written = pc.coalesce(written_ms(t, states), states["update_ms"]) if len(states) else states["update_ms"]
    ids, state = states["transactional_id"].to_pylist(), states["state"].to_pylist()
    prepared_ns, written_ns = (
        (column.to_numpy(zero_copy_only=False) - zero_ms) * 1e6 for column in (states["update_ms"], written)
    )
    rows = []
    for n, name in enumerate(state):
        if name in ("PrepareCommit", "PrepareAbort"):
            after = n + 1
            done = after < len(state) and ids[after] == ids[n] and state[after].startswith("Complete")
            rows.append((ids[n], name, int(prepared_ns[n]), int(written_ns[after]) if done else None))
    names = ("transactional_id", "state", "prepared_ns", "completed_ns")
    kinds = (pa.string(), pa.string(), pa.int64(), pa.int64())
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    return pa.table(
        {name: pa.array(column, kind) for name, kind, column in zip(names, kinds, columns, strict=True)}
    )


def _operations(
    t: RunTables, journals: Collection[str], most: int, near: Intervals, wanted: Collection[int]
) -> tuple[dict[str, list[Row]], Drawn]:
    """Return the operations to draw, by journal, in the order of their calls."""
    sampler = Sampler(most, near)
    names, numbers = pa.array(sorted(journals), pa.string()), pa.array(sorted(wanted), pa.int64())

    def read() -> Iterator[pa.Table]:
        for batch in t.batches("ops", _OPS):
            yield pa.Table.from_batches([batch]).filter(pc.is_in(batch["journal"], value_set=names))

    def is_wanted(part: pa.Table) -> np.ndarray:
        return np.asarray(pc.is_in(part["op"], value_set=numbers).to_numpy(zero_copy_only=False))

    kept = sample(read, "call_ns", sampler, is_wanted)
    rows: dict[str, list[Row]] = defaultdict(list)
    for row in [] if kept is None else kept.sort_by("call_ns").to_pylist():
        rows[row["journal"]].append(row)
    return rows, Drawn(sampler.kept, sampler.total)


def _operation(row: Row, **more: object) -> Slice:
    known_ns = row["commit_ns"] or row["call_ns"]
    end_ns = known_ns + SHORTEST_NS if row["return_ns"] is None else row["return_ns"]
    kind = "transaction" if row["f"] == "txn" else row["f"]
    args = {
        "operation": row["name"],
        "transactional id": row["transactional_id"],
        "error": row["error"],
        "fenced": row["fenced"] or None,
        "end": None if row["return_ns"] is not None else "not known: the operation has no completion",
    }
    return Slice(
        kind if row["f"] == "poll" else f"{kind}: {row['outcome']}",
        microseconds(row["call_ns"]),
        microseconds(end_ns),
        args | more,
        None if row["f"] == "poll" else _OUTCOME_COLORS.get(row["outcome"]),
        [("op", row["op"])],
    )


def _with_parts(rows: Sequence[Row]) -> list[Slice]:
    """Return the slices of a worker. Polls and the commit are inside their transaction, if they fit."""
    roots = {row["op"]: _operation(row) for row in rows if row["txn"] is None}
    parts: dict[int, list[Slice]] = defaultdict(list)
    for row in rows:
        if row["txn"] is not None:
            parts[row["txn"]].append(_operation(row))
        elif row["f"] == "txn" and row["commit_ns"] is not None:
            root = roots[row["op"]]
            parts[row["op"]].append(
                Slice("commit", microseconds(row["commit_ns"]), root.end_us, {}, root.color)
            )
    others = []
    for op, own in parts.items():
        for part in sorted(own, key=lambda each: each.begin_us):
            if (root_ := roots.get(op)) is None or not root_.nest(part):
                others.append(part)
    return [*roots.values(), *others]


def _one_after_the_other(slices: Sequence[Slice]) -> list[Slice]:
    """Return slices of which each ends before the next begins, with their durations as arguments."""
    ordered = sorted(slices, key=lambda each: each.begin_us)
    for each, following in pairwise(ordered):
        each.args = {**each.args, "took_ms": (each.end_us - each.begin_us) / 1_000}
        each.end_us = max(each.begin_us + 1, min(each.end_us, following.begin_us))
    return ordered


def _transaction(row: Row, end_ns: float) -> Slice:
    known_ns = row["end_ns"]
    if known_ns is None:
        last_ns = row["decided_ns"] or row["begin_ns"]
        known_ns = end_ns if row["ending"] == Ending.OPEN else last_ns + SHORTEST_NS
    args = {name: row[name] for name in ("stage", "process", "error")}
    return Slice(
        row["ending"],
        microseconds(row["begin_ns"]),
        microseconds(known_ns),
        {"operation": row["name"], **args, "fenced": row["fenced"] or None},
        _ENDING_COLORS.get(row["ending"]),
    )


def _completion(row: Row, end_ns: float) -> Slice:
    completed_ns = end_ns if row["completed_ns"] is None else row["completed_ns"]
    name = f"coordinator: {'commit' if row['state'] == 'PrepareCommit' else 'abort'}"
    args = {"from": row["state"], "to": "not complete" if row["completed_ns"] is None else "Complete"}
    return Slice(name, microseconds(row["prepared_ns"]), microseconds(completed_ns), args)


def _nest(roots: Sequence[Slice], parts: Sequence[Slice]) -> list[Slice]:
    """Put each coordinator's part into the last transaction that began before it. Return the parts that do not fit."""
    begins = np.array([root.begin_us for root in roots])
    before = [part.begin_us + CLOCK_NS // 1_000 for part in parts]
    last = np.searchsorted(begins, before, side="right") - 1
    return [part for part, at in zip(parts, last, strict=True) if at < 0 or not roots[at].nest(part)]


def _records_by_poll(t: RunTables, ops: Sequence[int]) -> Mapping[int, int]:
    """Return how many records these polls returned. A poll without rows is left out."""
    if not ops or not t.exists("polls"):
        return {}
    numbers = np.array(sorted(ops))
    counts = np.zeros(len(numbers), np.int64)
    for batch in t.batches("polls", ("op",)):
        op = batch["op"].to_numpy()
        at = np.minimum(np.searchsorted(numbers, op), len(numbers) - 1)
        counts += np.bincount(at[numbers[at] == op], minlength=len(numbers))
    return {int(op): int(count) for op, count in zip(numbers, counts, strict=True) if count}
