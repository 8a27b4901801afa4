"""The steps of an operation, a record or a transactional id from the journals, and what the broker logs add to them."""

from collections.abc import Iterable, Iterator, Sequence

from harness.common.errors import UsageError
from harness.model.vocabulary import Outcome
from harness.record.table_reader import Row, RunTables, span
from harness.record.timeline.markers import batches_of
from harness.results.wording import plural
from reports.trace.brokers import coordinators, marker_of, stored_offset
from reports.trace.interval import faults_on, record_at
from reports.trace.protocol import requests_of
from reports.trace.step import TraceStep, in_order

MARGIN_NS = 3_000_000_000
"""Faults, assignments and changed requests are shown up to this long after the last operation."""


def of_operation(t: RunTables, name: str) -> list[TraceStep]:
    """Return the steps of an operation such as `shop-2.1:10`. Raises `UsageError` if the run has no such
    operation.
    """
    ops = t.rows("ops", name=[name])
    if not ops:
        raise UsageError(
            f"the run has no operation {name}: an operation is named by its journal and its number, such as shop-2.1:10"
        )
    return in_order(operations(t, ops))


def of_record(t: RunTables, topic: str, partition: int, offset: int) -> list[TraceStep]:
    """Return the steps of a record: of its writer, and of operations that took it as an input.

    A record that no reader received is found by its acknowledgement.
    """
    try:
        record = record_at(t, topic, partition, offset)
    except UsageError:
        tp = t.numbers.get((topic, partition))
        sent = t.rows("sends", tp=[tp], offset=[offset]) if tp is not None else []
        if not sent:
            raise
        record = sent[0]
    inputs = [(record["tp"], offset), *((source["tp"], source["offset"]) for source in record["inputs"])]
    writers = {str(record["value"]).rpartition(":")[0]} if record["value"] else set()
    ops: dict[int, Row] = {row["op"]: row for row in t.rows("ops", name=writers)}
    for input_tp, input_offset in inputs:
        takers = [
            claim["op"]
            for claim in t.rows("claims", tp=[input_tp])
            if claim["first"] <= input_offset < claim["next"]
        ]
        ops |= {row["op"]: row for row in t.rows("ops", op=takers)}
    steps = list(operations(t, ops.values()))
    for input_tp, input_offset in inputs[1:]:
        input_record = next(iter(t.rows("records", tp=[input_tp], offset=[input_offset])), None)
        if input_record is not None and input_record["value"]:
            steps += operations(
                t, t.rows("ops", name=[str(input_record["value"]).rpartition(":")[0]]), brief=True
            )
    return in_order(steps)


def of_id(t: RunTables, transactional_id: str) -> list[TraceStep]:
    """Return the steps of a transactional id. Raises `UsageError` if the run does not have it."""
    ops = [row for row in t.rows("ops", transactional_id=[transactional_id]) if row["f"] in ("txn", "init")]
    if not ops:
        existing = sorted({row["transactional_id"] for row in t.rows("ops", f=["init"])} - {None})
        raise UsageError(
            f"the run has no transactional id {transactional_id}: it has {', '.join(existing) or 'none'}"
        )
    return in_order(
        [
            *_journal_steps(t, ops, brief=True),
            *coordinators(t, {transactional_id: None}),
            *requests_of(t, [transactional_id]),
        ]
    )


def operations(t: RunTables, ops: Iterable[Row], *, brief: bool = False) -> list[TraceStep]:
    """Return the steps of operations from all sources, and the faults during them. `brief` omits all but the
    journals.
    """
    ops = list(ops)
    steps = list(_journal_steps(t, ops, brief=brief))
    if brief or not ops:
        return steps
    begun = min(row["call_ns"] for row in ops)
    ended = max((row["return_ns"] or row["call_ns"]) for row in ops) + MARGIN_NS
    begun_ns: dict[str, list[int]] = {}
    for row in ops:
        if row["f"] == "txn" and row["transactional_id"]:
            begun_ns.setdefault(row["transactional_id"], []).append(row["call_ns"])
    return [
        *steps,
        *coordinators(t, begun_ns),
        *requests_of(t, begun_ns, begun, ended),
        *_offsets(t, ops),
        *_markers(t, ops),
        *_readers(t, ops),
        *faults_on(t, begun, ended),
        *_moves(t, {row["journal"] for row in ops}, begun, ended),
    ]


def _journal_steps(t: RunTables, ops: Sequence[Row], *, brief: bool) -> Iterator[TraceStep]:
    """Yield the steps from the journals."""
    sends: dict[int, list[Row]] = {}
    for send in t.rows("sends", op=[row["op"] for row in ops]):
        sends.setdefault(send["op"], []).append(send)
    claims: dict[int, list[Row]] = {}
    for claim in t.rows("claims", op=[row["op"] for row in ops]):
        claims.setdefault(claim["op"], []).append(claim)
    for row in ops:
        who, name, own_sends = row["journal"], row["name"], sends.get(row["op"], [])
        claimed = ", ".join(
            f"{t.name(claim['tp'])} @ {span(claim['first'], claim['next'])}"
            for claim in claims.get(row["op"], ())
        )
        parts = [
            _DOES.get(row["f"], row["f"]),
            f"as {row['transactional_id']}" if row["transactional_id"] else "",
            f"to {row['asked']}" if row["asked"] else "",
            f"with {plural(len(own_sends), 'record')}" if own_sends else "",
            f"for inputs {claimed}" if claimed and not brief else "",
        ]
        yield TraceStep(
            row["call_ns"], who, f"{name} {' '.join(filter(None, parts))}", f"{who}.jsonl:{row['line']}"
        )
        acked = [(send["tp"], send["offset"]) for send in own_sends if send["offset"] is not None]
        if acked and not brief:
            lost = len(own_sends) - len(acked)
            more = f"; {plural(lost, 'record')} without an acknowledgement" if lost else ""
            at = row["commit_ns"] or row["return_ns"]
            yield TraceStep(at, who, f"{name} has acknowledgements of {t.ranges(acked)}{more}", "sends")
        if row["commit_ns"] is not None:
            yield TraceStep(row["commit_ns"], who, f"{name} asks for the commit", who)
        yield _end(row)


_DOES = {
    "txn": "begins a transaction",
    "init": "initialises its producer",
    "send": "sends",
    "commit-offsets": "commits offsets outside a transaction",
    "poll": "polls",
}
_ENDS = {
    Outcome.OK.value: "succeeds",
    Outcome.FAIL.value: "was told that it failed",
    Outcome.INFO.value: "ends with an unknown outcome",
}


def _end(row: Row) -> TraceStep:
    who, name = row["journal"], row["name"]
    if row["return_ns"] is None:
        return TraceStep(None, who, f"{name} has no end: its process died", f"{who}.jsonl")
    error = f": {row['error']}" if row["error"] else ""
    is_abort = row["asked"] == "abort" and row["outcome"] == Outcome.FAIL.value and not error
    words = "was told that it is aborted" if is_abort else _ENDS[row["outcome"]]
    return TraceStep(row["return_ns"], who, f"{name} {words}{error}", f"{who}.jsonl:{row['end_line']}")


def _offsets(t: RunTables, ops: Sequence[Row]) -> Iterator[TraceStep]:
    """Yield the offset commits of these operations."""
    for row in t.rows("offsets", op=[operation["op"] for operation in ops]):
        yield stored_offset(t, row)


def _markers(t: RunTables, ops: Sequence[Row]) -> Iterator[TraceStep]:
    """Yield the markers that decided the operations' records, for the last record in each partition."""
    ends: dict[tuple[int, int], int] = {}  # by operation and partition
    numbers = [row["op"] for row in ops if row["f"] == "txn"]
    written = [(row["op"], row["tp"], row["offset"]) for row in t.rows("sends", op=numbers)]
    written += [(row["op"], row["log_tp"], row["log_offset"]) for row in t.rows("offsets", op=numbers)]
    for op, tp, offset in written:
        if offset is not None:
            ends[op, tp] = max(ends.get((op, tp), -1), offset)
    batches = batches_of(t, ((tp, last) for (_, tp), last in ends.items()))
    for (_, tp), last in sorted(ends.items()):
        if (tp, last) in batches:
            yield from marker_of(t, batches[tp, last], last)


def _readers(t: RunTables, ops: Sequence[Row]) -> Iterator[TraceStep]:
    """Yield for each reader the time at which it first received the records of the operations."""
    for op in ops:
        if op["f"] not in ("txn", "send"):
            continue
        polls_by_op: dict[int, list[Row]] = {}
        for row in t.rows_with_prefix("polls", "value", f"{op['name']}:"):
            polls_by_op.setdefault(row["op"], []).append(row)
        first: dict[tuple[str, int, int], int] = {}  # by reader and record
        for poll in t.rows("ops", op=polls_by_op):
            for record in polls_by_op[poll["op"]]:
                key = (poll["journal"], record["tp"], record["offset"])
                first[key] = min(record["return_ns"], first.get(key, record["return_ns"]))
        polled_records: dict[tuple[int, str], list[tuple[int, int]]] = {}
        for (journal, tp, offset), time_ns in first.items():
            polled_records.setdefault((time_ns, journal), []).append((tp, offset))
        for (time_ns, journal), positions in sorted(polled_records.items()):
            yield TraceStep(time_ns, journal, f"reads {t.ranges(positions)} of {op['name']}", "polls")


def _moves(t: RunTables, journals: set[str], begun_ns: int, ended_ns: int) -> Iterator[TraceStep]:
    """Yield the partitions that these processes gained or lost."""
    moves: dict[tuple[str, int, bool], list[Row]] = {}
    for row in t.rows("assignments", journal=journals):
        if begun_ns <= row["time_ns"] <= ended_ns:
            moves.setdefault((row["journal"], row["time_ns"], row["gained"]), []).append(row)
    for (journal, time_ns, gained), rows in moves.items():
        names = ", ".join(
            t.name(row["tp"]) + (f" from {row['offset']}" if gained and row["offset"] is not None else "")
            for row in rows
        )
        yield TraceStep(time_ns, journal, f"{'gains' if gained else 'loses'} {names}", "assignments")
