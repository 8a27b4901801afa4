"""The points of an operation, a record or a transactional id by journals, and what the broker logs add to them."""

from collections.abc import Collection, Iterable, Iterator, Sequence

import pyarrow.compute as pc

from harness.common.errors import UsageError
from harness.common.wording import plural
from harness.model.vocabulary import Outcome
from harness.record.table_reader import Row, span
from harness.results.verdict import FaultReport
from reports.story.model import Kind, Point, in_order
from reports.story.points import (
    changed_request_points,
    fault_at,
    fault_points,
    marker_points,
    read_points,
    record_at,
    request_points,
    state_points,
    stored_offset,
    written_record,
)
from reports.story.run import Position, Story
from reports.story.samples import outputs_of
from reports.under_way import stage_operations, under_way_between

MARGIN_NS = 3_000_000_000
"""Faults, assignments and changed requests are shown up to this long after the last operation."""
MOST_STAGES, MOST_OUTPUTS = 4, 8
"""The path of a record is shown through this many stages, with this many outputs of each."""
HEALING_NS = 500_000_000
"""An upper bound for the time of a heal. Operations that waited for a response get the response in this time."""
FIRST_MET = 3
"""The number of operations to show if the fault was injected while none was under way."""


def of_operation(story: Story, name: str) -> list[Point]:
    """Return the points of an operation such as `shop-2.1:10`. Raises `UsageError` if the run has no such
    operation.
    """
    t = story.tables
    ops = t.rows("ops", name=[name])
    if not ops:
        raise UsageError(
            f"the run has no operation {name}: an operation is named by its journal and its number, such as shop-2.1:10"
        )
    return in_order(operations(story, ops))


def of_record(story: Story, topic: str, partition: int, offset: int) -> list[Point]:
    """Return the points of a record: of its writer, and of operations that took it as an input.

    A record that no reader received is found by its acknowledgement.
    """
    t = story.tables
    try:
        record = record_at(story, topic, partition, offset)
    except UsageError:
        tp = t.numbers.get((topic, partition))
        sent = t.rows("sends", tp=[tp], offset=[offset]) if tp is not None else []
        if not sent:
            raise
        record = sent[0]
    inputs = [(record["tp"], offset), *((source["tp"], source["offset"]) for source in record["inputs"])]
    writers = {str(record["value"]).rpartition(":")[0]} if record["value"] else set()
    ops: dict[int, Row] = {row["op"]: row for row in t.rows("ops", name=writers)}
    ops |= {row["op"]: row for row in t.rows("ops", op=story.takers(inputs))}
    points = list(operations(story, ops.values()))
    begin_ns = min((row["call_ns"] for row in ops.values() if row["name"] in writers), default=None)
    points += written_record(story, inputs[0], begin_ns=begin_ns)
    points += _onward(story, inputs[0], ops.keys())
    for input_tp, input_offset in inputs[1:]:
        input_record = next(iter(t.rows("records", tp=[input_tp], offset=[input_offset])), None)
        if input_record is not None and input_record["value"]:
            points += operations(
                story, t.rows("ops", name=[str(input_record["value"]).rpartition(":")[0]]), brief=True
            )
    return in_order(points)


def _onward(story: Story, position: Position, shown: Collection[int]) -> Iterator[Point]:
    """Yield the path of a record through the next stages: its outputs, theirs, and so on, and who read them.

    The operations in `shown` are shown in full already, with the markers and readers of what they wrote.
    """
    t, reached, outputs = story.tables, {position}, [position]
    for _ in range(MOST_STAGES):
        outputs = [each for each in outputs_of(story, outputs) if each not in reached][:MOST_OUTPUTS]
        if not outputs:
            return
        reached.update(outputs)
        story.load_batches(outputs)
        tps, offsets = {tp for tp, _ in outputs}, {offset for _, offset in outputs}
        sends = t.rows("sends", tp=tps, offset=offsets)
        sender_of = {(send["tp"], send["offset"]): send["op"] for send in sends}
        ops = {row["op"]: row for row in t.rows("ops", op={sender_of[each] for each in outputs})}
        new = [row for op, row in ops.items() if op not in shown]
        yield from _journal_points(story, new, brief=True)
        for each in outputs:
            sender = ops[sender_of[each]]
            yield from written_record(story, each, begin_ns=sender["call_ns"])
            batch = story.batch(each)
            if batch is not None and sender in new:
                yield from marker_points(story, batch, each[1])
                yield from read_points(story, each)


def of_id(story: Story, transactional_id: str) -> list[Point]:
    """Return the points of a transactional id. Raises `UsageError` if the run does not have it."""
    t = story.tables
    ops = [row for row in t.rows("ops", transactional_id=[transactional_id]) if row["f"] in ("txn", "init")]
    if not ops:
        existing = sorted({row["transactional_id"] for row in t.rows("ops", f=["init"])} - {None})
        raise UsageError(
            f"the run has no transactional id {transactional_id}: it has {', '.join(existing) or 'none'}"
        )
    return in_order(
        [
            *_journal_points(story, ops, brief=True),
            *state_points(story, {transactional_id: None}),
            *request_points(story, [transactional_id]),
        ]
    )


def operations(story: Story, ops: Iterable[Row], *, brief: bool = False) -> list[Point]:
    """Return the points of operations from all sources, and the faults during them. `brief` omits all but the
    journals.
    """
    ops = list(ops)
    points = list(_journal_points(story, ops, brief=brief))
    if brief or not ops:
        return points
    begun = min(row["call_ns"] for row in ops)
    ended = max((row["return_ns"] or row["call_ns"]) for row in ops) + MARGIN_NS
    begun_ns: dict[str, list[int]] = {}
    for row in ops:
        if row["f"] == "txn" and row["transactional_id"]:
            begun_ns.setdefault(row["transactional_id"], []).append(row["call_ns"])
    return [
        *points,
        *state_points(story, begun_ns),
        *request_points(story, begun_ns, begun, ended),
        *_offsets(story, ops),
        *_markers(story, ops),
        *_reads(story, ops),
        *fault_points(story, begun, ended),
        *_moves(story, {row["journal"] for row in ops}, begun, ended),
    ]


def _journal_points(story: Story, ops: Sequence[Row], *, brief: bool) -> Iterator[Point]:
    """Yield the points from the journals."""
    t = story.tables
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
        yield Point(
            row["call_ns"],
            who,
            f"{name} {' '.join(filter(None, parts))}",
            f"{who}.jsonl:{row['line']}",
            Kind.BEGIN,
        )
        acked = [(send["tp"], send["offset"]) for send in own_sends if send["offset"] is not None]
        if acked and not brief:
            lost = len(own_sends) - len(acked)
            more = f"; {plural(lost, 'record')} without an acknowledgement" if lost else ""
            at = row["commit_ns"] or row["return_ns"]
            yield Point(
                at, who, f"{name} has acknowledgements of {t.ranges(acked)}{more}", "sends", Kind.RECORD
            )
        if row["commit_ns"] is not None:
            yield Point(row["commit_ns"], who, f"{name} asks for the commit", who, Kind.COMMIT)
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


def _end(row: Row) -> Point:
    who, name = row["journal"], row["name"]
    if row["return_ns"] is None:
        return Point(None, who, f"{name} has no end: its process died", f"{who}.jsonl", Kind.END)
    error = f": {row['error']}" if row["error"] else ""
    is_abort = row["asked"] == "abort" and row["outcome"] == Outcome.FAIL.value and not error
    words = "was told that it is aborted" if is_abort else _ENDS[row["outcome"]]
    return Point(row["return_ns"], who, f"{name} {words}{error}", f"{who}.jsonl:{row['end_line']}", Kind.END)


def _offsets(story: Story, ops: Sequence[Row]) -> Iterator[Point]:
    """Yield the offset commits of these operations."""
    t = story.tables
    for row in t.rows("offsets", op=[operation["op"] for operation in ops]):
        yield stored_offset(story, row)


def _markers(story: Story, ops: Sequence[Row]) -> Iterator[Point]:
    """Yield the markers that decided the operations' records, for the last record in each partition."""
    t = story.tables
    ends: dict[tuple[int, int], int] = {}  # by operation and partition
    numbers = [row["op"] for row in ops if row["f"] == "txn"]
    written = [(row["op"], row["tp"], row["offset"]) for row in t.rows("sends", op=numbers)]
    written += [(row["op"], row["log_tp"], row["log_offset"]) for row in t.rows("offsets", op=numbers)]
    for op, tp, offset in written:
        if offset is not None:
            ends[op, tp] = max(ends.get((op, tp), -1), offset)
    story.load_batches((tp, last) for (_, tp), last in ends.items())
    for (_, tp), last in sorted(ends.items()):
        if (batch := story.batch((tp, last))) is not None:
            yield from marker_points(story, batch, last)


def _reads(story: Story, ops: Sequence[Row]) -> Iterator[Point]:
    """Yield for each reader the time at which it first received the records of the operations."""
    t = story.tables
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
            yield Point(time_ns, journal, f"reads {t.ranges(positions)} of {op['name']}", "polls", Kind.READ)


def _moves(story: Story, journals: set[str], begun_ns: int, ended_ns: int) -> Iterator[Point]:
    """Yield the partitions that these processes gained or lost."""
    t = story.tables
    moves: dict[tuple[str, int, bool], list[Row]] = {}
    for row in t.rows("assignments", journal=journals):
        if begun_ns <= row["time_ns"] <= ended_ns:
            moves.setdefault((row["journal"], row["time_ns"], row["gained"]), []).append(row)
    for (journal, time_ns, gained), rows in moves.items():
        names = ", ".join(
            t.name(row["tp"]) + (f" from {row['offset']}" if gained and row["offset"] is not None else "")
            for row in rows
        )
        yield Point(
            time_ns, journal, f"{'gains' if gained else 'loses'} {names}", "assignments", Kind.ASSIGNMENT
        )


# Faults


def of_fault(story: Story, number: int) -> list[Point]:
    """Return the points of a fault, counted from 1. They are those of the operations that were under way,
    and of those that took the same inputs afterwards. If the fault is a rule, the points include the requests that it
    changed.

    Raises `UsageError` if the run has no such fault.
    """
    fault = fault_at(story, number)
    injected_ns = round(fault.start_s * 1e9)
    healed_ns = max(injected_ns, round((fault.end_s or 0.0) * 1e9))
    met_operations = _met_operations(story, fault, injected_ns, healed_ns)
    points = operations(story, [*met_operations, *_took_over(story, met_operations)])
    by_rule = changed_request_points(story, fault.fault, injected_ns, healed_ns)
    return in_order([*points, *by_rule, *fault_points(story, injected_ns, healed_ns)])


def _met_operations(story: Story, fault: FaultReport, injected_ns: int, healed_ns: int) -> list[Row]:
    """Return the operations under way when the fault was injected or about to be healed.

    If the fault names a worker or a transactional id, only its operations count. If the named worker was between
    two operations, the last one that it ended counts. If no operation was under way, the first ones before the
    heal count.
    """
    t = story.tables
    healing_ns = max(injected_ns, healed_ns - HEALING_NS)
    ops = stage_operations(t.table("ops"))
    under_way: list[Row] = under_way_between(ops, injected_ns, injected_ns).to_pylist()
    worker, transactional_id = fault.details.get("worker"), fault.details.get("transactional_id")
    if worker is not None:
        of_worker = ops.filter(pc.equal(ops["journal"], worker))
        at_first: list[Row] = under_way_between(of_worker, injected_ns, injected_ns).to_pylist()
        before = of_worker.filter(
            pc.less_equal(of_worker["call_ns"], injected_ns)
        )  # in the order of their calls
        first = at_first or before.slice(max(0, len(before) - 1)).to_pylist()
        at_last = under_way_between(of_worker, healing_ns, healing_ns).to_pylist()
        return list({row["op"]: row for row in [*first, *at_last]}.values())
    met = (
        under_way
        or under_way_between(ops, injected_ns, healed_ns).sort_by("call_ns").slice(0, FIRST_MET).to_pylist()
    )
    return [
        row for row in met if transactional_id is not None and row["transactional_id"] == transactional_id
    ] or met


def _took_over(story: Story, met_operations: list[Row]) -> list[Row]:
    """Return the operations that took the same inputs afterwards."""
    t = story.tables
    numbers = {row["op"] for row in met_operations}
    inputs = {
        (record["tp"], record["offset"]) for send in t.rows("sends", op=numbers) for record in send["inputs"]
    }
    since = min((row["call_ns"] for row in met_operations), default=0)
    again = t.operations_from(inputs) - numbers
    return [row for row in t.rows("ops", op=again) if row["call_ns"] >= since]
