"""The steps of a custom pipeline from the broker logs: records, markers, transaction states, offsets."""

import math
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence

from harness.common.errors import UsageError
from harness.model.vocabulary import WARM_UP
from harness.record.table_reader import Row, RunTables
from harness.record.timeline.markers import batches_of
from reports.trace.brokers import coordinators, marker_of, stored_offset
from reports.trace.interval import fault_at, faults_on, record_at
from reports.trace.protocol import changed_requests, requests_of
from reports.trace.step import TraceStep, in_order

LogPosition = tuple[int, int]
"""Partition number in the run, and offset."""
OFFSETS = "__consumer_offsets"
AROUND_NS = 1_000_000_000
"""The time before and after a fault to include."""
LOOKED_UP_AT_ONCE = 32
"""Offset commits whose batches are looked up together. Most often the first of them counts."""
MOST_OTHERS = 8
"""The largest number of related records to show."""


def of_record(t: RunTables, topic: str, partition: int, offset: int) -> list[TraceStep]:
    """Return the steps of a record: its writer, its transaction, its readers, and related records.

    Related records are the outputs of an input, the inputs of an output, and in a `final` topic the nearest records of
    the same key.

    Raises `UsageError` if the run has no such record.
    """
    record = record_at(t, topic, partition, offset)
    at = (record["tp"], offset)
    steps = [*_log_steps(t, at, record, with_transaction=True), *_reads(t, at), *_commits_past(t, at)]
    for related_record in _related(t, at, record):
        steps += _log_steps(
            t, (related_record["tp"], related_record["offset"]), related_record, with_transaction=False
        )
    times = [step.time_ns for step in steps if step.time_ns is not None and step.source != "polls"]
    return in_order([*steps, *faults_on(t, min(times), max(times))] if times else steps)


def of_id(t: RunTables, transactional_id: str) -> list[TraceStep]:
    """Return the states of a transactional id in the transaction log. Raises `UsageError`."""
    existing = sorted({row["transactional_id"] for row in t.rows("transactions")} - {None})
    if transactional_id not in existing:
        shown_ids = [existing_id for existing_id in existing if not existing_id.startswith(WARM_UP)]
        raise UsageError(
            f"the run has no transactional id {transactional_id}: it has {', '.join(shown_ids) or 'none'}"
        )
    return in_order([*coordinators(t, {transactional_id: None}), *requests_of(t, [transactional_id])])


def of_fault(t: RunTables, number: int) -> list[TraceStep]:
    """Return the steps of a fault, counted from 1, and the transactions around it: those of the transactional id that
    the fault names, or else of all ids. Raises `UsageError`.
    """
    fault = fault_at(t, number)
    from_ns = round(fault.start_s * 1e9) - AROUND_NS
    to_ns = round((fault.end_s or fault.start_s) * 1e9) + AROUND_NS
    transactional_id = fault.details.get("transactional_id")
    ids = (
        {transactional_id}
        if transactional_id
        else {row["transactional_id"] for row in t.rows("transactions")} - {None}
    )
    steps = [
        step
        for step in coordinators(t, dict.fromkeys(ids))
        if step.time_ns is not None and from_ns <= step.time_ns <= to_ns
    ]
    by_rule = changed_requests(t, fault.fault, from_ns, to_ns)
    return in_order([*steps, *by_rule, *faults_on(t, from_ns + AROUND_NS, to_ns - AROUND_NS)])


def _log_steps(t: RunTables, at: LogPosition, record: Row, *, with_transaction: bool) -> Iterator[TraceStep]:
    """Yield the record in the leader's log and its marker; `with_transaction`: also the states and offset commits of
    its transaction.
    """
    tp, offset = at
    batch = batches_of(t, [at]).get(at)
    if batch is None:
        return
    producer = batch["producer_id"]
    by = (
        f"producer {producer} epoch {batch['epoch']}" if producer >= 0 else "a producer without a producer id"
    )
    yield TraceStep(
        t.at_ns(batch["max_timestamp_ms"]),
        f"log of {t.name(tp)}",
        f"offset {offset} is written by {by}",
        "batches",
        content=record["content"],
    )
    yield from marker_of(t, batch, offset)
    if not with_transaction or batch["marker"] is None:
        return
    ids = _transactional_ids(t, producer)
    states = _states(t, ids, batch)
    yield from states
    times = [state.time_ns for state in states if state.time_ns is not None]
    if times:
        yield from _offsets(t, producer, min(times), max(times))
        yield from requests_of(t, ids, min(times), max(times))


def _transactional_ids(t: RunTables, producer: int) -> set[str]:
    return {row["transactional_id"] for row in t.rows("transactions", producer_id=[producer])} - {None}


def _states(t: RunTables, ids: Collection[str], batch: Row) -> list[TraceStep]:
    """Return the states of the transaction of one of these ids that the marker of this batch ended."""
    ended = t.at_ns(batch["marker_ms"])
    states: list[TraceStep] = []
    for step in coordinators(t, dict.fromkeys(ids)):
        if states and states[-1].what.startswith("Complete"):
            if ended is None or (states[-1].time_ns or 0) >= ended:
                break
            states = []
        states.append(step)
    return states


def _offsets(t: RunTables, producer: int, begun_ns: int, ended_ns: int) -> Iterator[TraceStep]:
    """Yield the offsets that this producer committed in this interval."""
    batches: dict[int, list[tuple[int, int]]] = {}
    for row in t.rows("batches", tp=t.partitions_of(OFFSETS), leader=[True], producer_id=[producer]):
        batches.setdefault(row["tp"], []).append((row["base_offset"], row["last_offset"]))
    for own in batches.values():
        own.sort()
    for row in t.rows("offsets", log_tp=batches.keys()):
        own, offset, at = batches[row["log_tp"]], row["log_offset"], t.at_ns(row["timestamp_ms"])
        below = bisect_right(own, (offset, math.inf)) - 1
        if below >= 0 and offset <= own[below][1] and at is not None and begun_ns <= at <= ended_ns:
            yield stored_offset(t, row)


def _commits_past(t: RunTables, at: LogPosition) -> Iterator[TraceStep]:
    """Yield for each group the offset commits above an input, up to the first that counts: the aborted ones before it
    may be why nothing of the input is left. The markers and the changed requests of their transactions are included.
    """
    past: dict[str, list[Row]] = {}
    row: Row
    for row in t.rows("offsets", tp=[at[0]]):
        if row["committed"] is not None and row["committed"] > at[1]:
            past.setdefault(row["group"], []).append(row)
    for rows in past.values():
        rows.sort(key=lambda row: row["log_offset"])
        for row, batch in _until_one_counts(t, rows)[-MOST_OTHERS:]:
            yield stored_offset(t, row)
            if batch is not None and batch["transactional"]:
                yield from _transaction_of_offsets(t, row, batch)


def _until_one_counts(t: RunTables, rows: Sequence[Row]) -> list[tuple[Row, Row | None]]:
    """Return the offset commits up to the first that counts, each with its batch. None: its log is not stored."""
    seen: list[tuple[Row, Row | None]] = []
    for start in range(0, len(rows), LOOKED_UP_AT_ONCE):
        some = rows[start : start + LOOKED_UP_AT_ONCE]
        batches = batches_of(t, [(row["log_tp"], row["log_offset"]) for row in some])
        for row in some:
            batch = batches.get((row["log_tp"], row["log_offset"]))
            seen.append((row, batch))
            if batch is None or not batch["transactional"] or batch["marker"] == "commit":
                return seen
    return seen


def _transaction_of_offsets(t: RunTables, row: Row, batch: Row) -> Iterator[TraceStep]:
    """Yield the marker, the states and the requests of the transaction of an offset commit."""
    yield from marker_of(t, batch, row["log_offset"])
    ids = _transactional_ids(t, batch["producer_id"])
    if batch["marker"] is not None:
        yield from _states(t, ids, batch)
    times = [at for at in (t.at_ns(row["timestamp_ms"]), t.at_ns(batch["marker_ms"])) if at is not None]
    if times:
        yield from requests_of(t, ids, min(times), max(times))


def _reads(t: RunTables, at: LogPosition) -> Iterator[TraceStep]:
    """Yield the reads of the record."""
    polls = t.rows("polls", tp=[at[0]], offset=[at[1]])
    names = {row["op"]: row["journal"] for row in t.rows("ops", op={poll["op"] for poll in polls})}
    for poll in polls:
        who = names.get(poll["op"], "a reader")
        yield TraceStep(poll["return_ns"], who, f"reads {t.name(at[0])} @ {at[1]}", "polls")


def _related(t: RunTables, at: LogPosition, record: Row) -> list[Row]:
    """Return the outputs joined to an input, or the inputs joined to an output."""
    expected = t.rows("expected", tp=[at[0]], offset=[at[1]])
    related: list[Row] = [
        *t.rows("records", correlation_key={row["correlation_key"] for row in expected} - {None})
    ]
    for row in expected:
        if row["adds"] is not None:
            related += _nearest(
                t.rows("records", tp=t.partitions_of(row["topic"]), key=[row["key"]]), row["offset"]
            )
    if record["state"] is not None:
        related += _nearest(t.rows("records", tp=[at[0]], key=[record["key"]]), at[1])
    if record["correlation_key"]:
        sources = {
            (row["tp"], row["offset"])
            for row in t.rows("expected", correlation_key=[record["correlation_key"]])
        }
        for tp, offset in sorted(sources):
            related += t.rows("records", tp=[tp], offset=[offset])
    without_itself = {(row["tp"], row["offset"]): row for row in related if (row["tp"], row["offset"]) != at}
    return list(without_itself.values())[:MOST_OTHERS]


def _nearest(rows: Sequence[Row], offset: int) -> list[Row]:
    return sorted(rows, key=lambda row: abs(row["offset"] - offset))[:MOST_OTHERS]
