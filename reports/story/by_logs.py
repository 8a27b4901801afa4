"""The points of a custom pipeline by broker logs: records, markers, transaction states, offsets."""

import math
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from itertools import islice

from harness.common.errors import UsageError
from harness.model.vocabulary import WARM_UP
from harness.record.table_reader import Row
from reports.story.model import Point, in_order
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
from reports.story.run import OFFSETS, Position, Story
from reports.story.samples import outputs_of

AROUND_NS = 1_000_000_000
"""The time before and after a fault to include."""
LOOKED_UP_AT_ONCE = 32
"""Offset commits whose batches are looked up together. Most often the first of them counts."""
MOST_OTHERS = 8
"""The largest number of related records to show."""
MOST_CARRIERS = 2
"""The largest number of records in each other topic that are shown because they have the same key."""
BEFORE_MS, PATH_MS = 1_000, 10_000


def of_record(story: Story, topic: str, partition: int, offset: int) -> list[Point]:
    """Return the points of a record: its writer, its transaction, its readers, and related records.

    Related records are the outputs of an input, the inputs of an output, the records of other topics that carry its key
    at that time, and in a `final` topic the nearest records of the same key. So the path of an input leads through the
    topics that the program made for itself, as far as the tables have their records.

    Raises `UsageError` if the run has no such record.
    """
    record = record_at(story, topic, partition, offset)
    at = (record["tp"], offset)
    points = [
        *_log_points(story, at, record, with_transaction=True),
        *read_points(story, at),
        *_commits_past(story, at),
    ]
    for related in _related(story, at, record):
        position = (related["tp"], related["offset"])
        points += _log_points(story, position, related, with_transaction=False)
        points += read_points(story, position)
    times = [point.at_ns for point in points if point.at_ns is not None and point.source != "polls"]
    return in_order([*points, *fault_points(story, min(times), max(times))] if times else points)


def of_id(story: Story, transactional_id: str) -> list[Point]:
    """Return the states of a transactional id in the transaction log. Raises `UsageError`."""
    t = story.tables
    existing = sorted({row["transactional_id"] for row in t.rows("transactions")} - {None})
    if transactional_id not in existing:
        shown_ids = [existing_id for existing_id in existing if not existing_id.startswith(WARM_UP)]
        raise UsageError(
            f"the run has no transactional id {transactional_id}: it has {', '.join(shown_ids) or 'none'}"
        )
    return in_order(
        [*state_points(story, {transactional_id: None}), *request_points(story, [transactional_id])]
    )


def of_fault(story: Story, number: int) -> list[Point]:
    """Return the points of a fault, counted from 1, and the transactions around it: those of the transactional id that
    the fault names, or else of all ids. Raises `UsageError`.
    """
    t = story.tables
    fault = fault_at(story, number)
    from_ns = round(fault.start_s * 1e9) - AROUND_NS
    to_ns = round((fault.end_s or fault.start_s) * 1e9) + AROUND_NS
    transactional_id = fault.details.get("transactional_id")
    ids = (
        {transactional_id}
        if transactional_id
        else {row["transactional_id"] for row in t.rows("transactions")} - {None}
    )
    points = [
        point
        for point in state_points(story, dict.fromkeys(ids))
        if point.at_ns is not None and from_ns <= point.at_ns <= to_ns
    ]
    by_rule = changed_request_points(story, fault.fault, from_ns, to_ns)
    return in_order([*points, *by_rule, *fault_points(story, from_ns + AROUND_NS, to_ns - AROUND_NS)])


def _log_points(story: Story, at: Position, record: Row, *, with_transaction: bool) -> Iterator[Point]:
    """Yield the record in the leader's log and its marker; `with_transaction`: also the states and offset commits of
    its transaction.
    """
    batch = story.batch(at)
    if batch is None:
        return
    yield from written_record(story, at, record["content"])
    yield from marker_points(story, batch, at[1])
    if not with_transaction or batch["marker"] is None:
        return
    ids = _transactional_ids(story, batch["producer_id"])
    states = _states(story, ids, batch)
    yield from states
    times = [state.at_ns for state in states if state.at_ns is not None]
    if times:
        yield from _offsets(story, batch["producer_id"], min(times), max(times))
        yield from request_points(story, ids, min(times), max(times))


def _transactional_ids(story: Story, producer: int) -> set[str]:
    t = story.tables
    return {row["transactional_id"] for row in t.rows("transactions", producer_id=[producer])} - {None}


def _states(story: Story, ids: Collection[str], batch: Row) -> list[Point]:
    """Return the states of the transaction of one of these ids that the marker of this batch ended."""
    t = story.tables
    ended = t.at_ns(batch["marker_ms"])
    states: list[Point] = []
    for point in state_points(story, dict.fromkeys(ids)):
        if states and states[-1].words.startswith("Complete"):
            if ended is None or (states[-1].at_ns or 0) >= ended:
                break
            states = []
        states.append(point)
    return states


def _offsets(story: Story, producer: int, begun_ns: int, ended_ns: int) -> Iterator[Point]:
    """Yield the offsets that this producer committed in this interval."""
    t = story.tables
    batches: dict[int, list[tuple[int, int]]] = {}
    for row in t.rows("batches", tp=t.partitions_of(OFFSETS), leader=[True], producer_id=[producer]):
        batches.setdefault(row["tp"], []).append((row["base_offset"], row["last_offset"]))
    for own in batches.values():
        own.sort()
    for row in t.rows("offsets", log_tp=batches.keys()):
        own, offset, at = batches[row["log_tp"]], row["log_offset"], t.at_ns(row["timestamp_ms"])
        below = bisect_right(own, (offset, math.inf)) - 1
        if below >= 0 and offset <= own[below][1] and at is not None and begun_ns <= at <= ended_ns:
            yield stored_offset(story, row)


def _commits_past(story: Story, at: Position) -> Iterator[Point]:
    """Yield for each group the offset commits above an input, up to the first that counts: the aborted ones before it
    may be why nothing of the input is left. The markers and the changed requests of their transactions are included.
    """
    t = story.tables
    past: dict[str, list[Row]] = {}
    row: Row
    for row in t.rows("offsets", tp=[at[0]]):
        if row["committed"] is not None and row["committed"] > at[1]:
            past.setdefault(row["group"], []).append(row)
    for rows in past.values():
        rows.sort(key=lambda row: row["log_offset"])
        for row, batch in _until_one_counts(story, rows)[-MOST_OTHERS:]:
            yield stored_offset(story, row)
            if batch is not None and batch["transactional"]:
                yield from _transaction_of_offsets(story, row, batch)


def _until_one_counts(story: Story, rows: Sequence[Row]) -> list[tuple[Row, Row | None]]:
    """Return the offset commits up to the first that counts, each with its batch. None: its log is not stored."""
    seen: list[tuple[Row, Row | None]] = []
    for start in range(0, len(rows), LOOKED_UP_AT_ONCE):
        some = rows[start : start + LOOKED_UP_AT_ONCE]
        story.load_batches((row["log_tp"], row["log_offset"]) for row in some)
        for row in some:
            batch = story.batch((row["log_tp"], row["log_offset"]))
            seen.append((row, batch))
            if batch is None or not batch["transactional"] or batch["marker"] == "commit":
                return seen
    return seen


def _transaction_of_offsets(story: Story, row: Row, batch: Row) -> Iterator[Point]:
    """Yield the marker, the states and the requests of the transaction of an offset commit."""
    t = story.tables
    yield from marker_points(story, batch, row["log_offset"])
    ids = _transactional_ids(story, batch["producer_id"])
    if batch["marker"] is not None:
        yield from _states(story, ids, batch)
    times = [at for at in (t.at_ns(row["timestamp_ms"]), t.at_ns(batch["marker_ms"])) if at is not None]
    if times:
        yield from request_points(story, ids, min(times), max(times))


def _related(story: Story, at: Position, record: Row) -> list[Row]:
    """Return the outputs joined to an input, or the inputs joined to an output."""
    t = story.tables
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
    for source in record["inputs"]:
        related += t.rows("records", tp=[source["tp"]], offset=[source["offset"]])
    for tp, offset in outputs_of(story, [at])[:MOST_OTHERS]:
        related += t.rows("records", tp=[tp], offset=[offset])
    by_position = {(row["tp"], row["offset"]): row for row in related}
    by_position.pop(at, None)
    first = dict(islice(by_position.items(), MOST_OTHERS))
    topics = {t.topic(tp) for tp, _ in first}
    carriers = {(row["tp"], row["offset"]): row for row in _carriers(story, record, topics)}
    return [*first.values(), *(row for position, row in carriers.items() if position not in first)]


def _carriers(story: Story, record: Row, topics: Collection[str]) -> Iterator[Row]:
    """Yield the records of other topics that have the same key, from a little before the record until `PATH_MS` later.

    In each topic these are the first ones. `topics` have related records already.
    """
    t, stamp_ms = story.tables, record["timestamp_ms"]
    if record["key"] is None or stamp_ms is None:
        return
    by_topic: dict[str, list[Row]] = {}
    for row in t.rows("records", key=[record["key"]]):
        topic, at_ms = t.topic(row["tp"]), row["timestamp_ms"]
        inside = at_ms is not None and stamp_ms - BEFORE_MS <= at_ms <= stamp_ms + PATH_MS
        if inside and topic not in (t.topic(record["tp"]), *topics) and not row["sentinel"]:
            by_topic.setdefault(topic, []).append(row)
    for rows in by_topic.values():
        yield from sorted(rows, key=lambda row: abs(row["timestamp_ms"] - stamp_ms))[:MOST_CARRIERS]


def _nearest(rows: Sequence[Row], offset: int) -> list[Row]:
    return sorted(rows, key=lambda row: abs(row["offset"] - offset))[:MOST_OTHERS]
