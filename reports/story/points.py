"""The points that both loaders share: states of transactions, markers, stored offsets, requests, and faults."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from harness.common.errors import UnreadableInput, UsageError
from harness.common.wording import plural
from harness.record.protocol_journal import JOURNAL, JournaledRequest, ProtocolJournal
from harness.record.table_reader import MOST_CHANGED_REQUESTS, Row
from harness.record.timeline.load import stored_states
from harness.results.verdict import FaultReport
from reports.story.model import TICK_NS, Kind, Point, Span
from reports.story.roles import process_at
from reports.story.run import Position, Story
from reports.under_way import nanoseconds

PROXY = "protocol proxy"
KEPT_NS = 50_000_000
"""A request that is delivered later than this after it came was kept."""


def record_at(story: Story, topic: str, partition: int, offset: int) -> Row:
    """Return the record at this position. Raises `UsageError` if there is none."""
    t = story.tables
    tp = t.numbers.get((topic, partition))
    record = next(iter(t.rows("records", tp=[tp], offset=[offset])), None) if tp is not None else None
    if record is None:
        raise UsageError(f"the run has no record at {topic}/{partition}@{offset}")
    return record


# Transactions


def state_points(story: Story, begun_ns: Mapping[str, Sequence[int] | None]) -> Iterator[Point]:
    """Yield the transaction log's states of these ids.

    For each id, `begun_ns` holds the times at which its transactions began. The states of each transaction are included
    until it is complete. With None all states are included.
    """
    t = story.tables
    states = stored_states(t, transactional_id=begun_ns.keys())
    for transactional_id, begun in sorted(begun_ns.items()):
        rows = [row for row in states if row["transactional_id"] == transactional_id]
        timed = [(t.at_ns(row["update_ms"]), row) for row in rows]
        for _, row in timed if begun is None else _until_complete(timed, begun):
            over = f" [{', '.join(t.name(tp) for tp in row['tps'])}]" if row["tps"] else ""
            words = f"{row['state']}{over}, producer {row['producer_id']} epoch {row['epoch']}"
            where = f"{t.name(row['log_tp'])} @ {row['log_offset']}"
            yield Point(row["at_ns"], f"coordinator of {transactional_id}", words, where, Kind.STATE)


def _until_complete(
    timed: Sequence[tuple[int | None, Row]], begun_ns: Sequence[int]
) -> Iterator[tuple[int | None, Row]]:
    """Return the states after each begin, until the transaction is complete."""
    wanted: set[int] = set()
    for begun in begun_ns:
        for n, (at, row) in enumerate(timed):
            if at is None or at < begun - TICK_NS:
                continue
            wanted.add(n)
            if str(row["state"]).startswith("Complete"):
                break
    return (timed[n] for n in sorted(wanted))


def marker_points(story: Story, batch: Row, offset: int) -> Iterator[Point]:
    """Yield the marker that decided a record, or that there is none. A record outside transactions needs none."""
    if not batch["transactional"]:
        return
    where = f"log of {story.tables.name(batch['tp'])}"
    if batch["marker"] is None:
        words = f"no marker is above offset {offset}: the transaction is open"
        yield Point(None, where, words, "batches", Kind.OPEN)
        return
    words = (
        f"{batch['marker']} marker at {batch['marker_offset']}, above offset {offset}, "
        f"by coordinator epoch {batch['coordinator_epoch']}"
    )
    yield Point(story.marker_ns(batch), where, words, "batches", Kind.MARKER)


def stored_offset(story: Story, row: Row) -> Point:
    """Return the point of a row of `offsets`."""
    t = story.tables
    how = "in a transaction" if row["transactional"] else "outside any transaction"
    words = f"offset {row['committed']} of {t.name(row['tp'])} is stored, {how}"
    source = f"{t.name(row['log_tp'])} @ {row['log_offset']}"
    return Point(t.at_ns(row["timestamp_ms"]), f"group {row['group']}", words, source, Kind.OFFSETS)


def written_record(
    story: Story, position: Position, content: str | None = None, begin_ns: int | None = None
) -> Iterator[Point]:
    """Yield that a record was written to the log of its leader. Nothing: the log is not stored.

    `begin_ns`: when its operation began. None: it is not known.
    """
    batch = story.batch(position)
    if batch is None:
        return
    tp, offset = position
    producer = batch["producer_id"]
    at_ns, adjusted = story.written_ns(batch, begin_ns)
    by = (
        f"producer {producer} epoch {batch['epoch']}" if producer >= 0 else "a producer without a producer id"
    )
    own_id = story.ids_by_producer.get(producer)
    if own_id is not None:
        process = process_at(story, own_id, at_ns)
        by += f" ({own_id}{f' of {process}' if process not in ('', own_id) else ''})"
    yield Point(
        at_ns,
        f"log of {story.tables.name(tp)}",
        f"offset {offset} is written by {by}",
        "batches",
        Kind.RECORD,
        content=content,
        adjusted=adjusted,
    )


def read_points(story: Story, position: Position) -> Iterator[Point]:
    """Yield the reads of a record."""
    t, (tp, offset) = story.tables, position
    polls = t.rows("polls", tp=[tp], offset=[offset])
    names = {row["op"]: row["journal"] for row in t.rows("ops", op={poll["op"] for poll in polls})}
    for poll in polls:
        reader = names.get(poll["op"], "a reader")
        yield Point(poll["return_ns"], reader, f"reads {t.name(tp)} @ {offset}", "polls", Kind.READ)


# Requests


def request_points(
    story: Story, transactional_ids: Collection[str], from_ns: float = -math.inf, to_ns: float = math.inf
) -> Iterator[Point]:
    """Yield the requests of these transactional ids that were under way in this interval: what happened to those that
    a rule changed, and one point for each other one. The retry of a changed request is shown with it.

    Args:
        story: the story of the run
        transactional_ids: whose requests
        from_ns: the start of the interval
        to_ns: the end of the interval
    """
    journal = story.tables.protocol_of(transactional_ids)
    yield from _missing(journal)
    retries = journal.retries()
    changed = journal.under_way(transactional_ids, from_ns, to_ns)
    yield from _request_steps(changed, retries)
    numbers = {each.request.number for each in changed}
    for each in journal.passed:
        earlier = retries.get(each.request.number)
        of_shown = earlier is not None and earlier.request.number in numbers
        if of_shown or (each.request.seen_ns <= to_ns and each.last_ns >= from_ns):
            words = f"{each.title}: {_again(each, retries)}{_in_one_line(each)}"
            yield Point(each.request.seen_ns, PROXY, words, JOURNAL, Kind.REQUEST)


def changed_request_points(story: Story, rule: str, from_ns: float, to_ns: float) -> Iterator[Point]:
    """Yield what happened to the requests that a rule changed and that were under way in this interval."""
    protocol = story.tables.protocol
    yield from _missing(protocol)
    changed = [each for each in protocol.under_way(None, from_ns, to_ns) if each.rule == rule]
    yield from _request_steps(changed, retries={})


def _missing(journal: ProtocolJournal) -> Iterator[Point]:
    if journal.missing:
        words = f"{JOURNAL} is missing, so its requests are not known"
        yield Point(None, PROXY, words, JOURNAL, Kind.REQUEST)


def _request_steps(
    changed: Sequence[JournaledRequest], retries: Mapping[int, JournaledRequest]
) -> Iterator[Point]:
    for each in changed[:MOST_CHANGED_REQUESTS]:
        for step in each.steps():
            again = _again(each, retries) if step.kind == "sent" else ""
            words = f"{each.title}: {again}{step.words}"
            yield Point(step.at_ns, PROXY, words, JOURNAL, Kind.REQUEST)
    if others := changed[MOST_CHANGED_REQUESTS:]:
        words = f"{plural(len(others), 'more request')} that a rule changed: see {JOURNAL}"
        yield Point(others[0].request.seen_ns, PROXY, words, JOURNAL, Kind.REQUEST)


def _again(each: JournaledRequest, retries: Mapping[int, JournaledRequest]) -> str:
    """Say which request it repeats. Empty: none."""
    earlier = retries.get(each.request.number)
    if earlier is None:
        return ""
    other = each.request.connection != earlier.request.connection
    return f"the client's retry of {earlier.name}{' on another connection' if other else ''}; "


def _in_one_line(each: JournaledRequest) -> str:
    """Describe a request that no rule changed: `delivered to broker 2, answered NONE at 3.214 s`.

    A rule on an earlier request of the connection may keep it, too. Then the time of its delivery is shown.
    """
    later = [step for step in each.steps() if step.kind != "sent"]
    delivered = [
        step.words if step.at_ns - each.request.seen_ns <= KEPT_NS else f"{step.words} at {step.at_s}"
        for step in later
        if step.kind == "delivered"
    ] or ["not delivered"]
    return ", ".join([*delivered, *(f"{s.words} at {s.at_s}" for s in later if s.kind != "delivered")])


_STEPS = {"sent": Kind.REQUEST, "acted": Kind.ACTED, "delivered": Kind.DELIVERED, "answered": Kind.ANSWERED}


def request_span(each: JournaledRequest) -> Span:
    """Return a changed request from its sending to its answer, with what happened to it.

    Its actor is its client, and its `subject` what the rule did.
    """
    request, actor = each.request, ", ".join(each.request.names)
    points = tuple(Point(step.at_ns, actor, str(step), JOURNAL, _STEPS[step.kind]) for step in each.steps())
    return Span(
        request.seen_ns,
        each.answered_ns,
        actor,
        each.title,
        JOURNAL,
        Kind.REQUEST,
        each.action,
        points=points,
        ids=request.transactional_ids,
        facts={"broker": request.broker or None, "answer": each.answer or "none"},
    )


def changed_request_spans(protocol: ProtocolJournal) -> list[Span]:
    """Return the first requests that rules changed, in the order in which they were sent."""
    return [request_span(each) for each in protocol.under_way()[:MOST_CHANGED_REQUESTS]]


def changed_requests_of_run(story: Story) -> tuple[list[Span], int]:
    """Return all changed requests that the journal returns, and how many more there are. Their `subject` has the name
    of the request, too. Raises `UnreadableInput`.
    """
    protocol = story.tables.protocol
    spans = []
    for each in protocol.under_way():
        request = each.request
        asked = f"({request.asked})" if request.asked else ""
        span = request_span(each)
        spans.append(
            replace(span, actor=span.actor or request.link, subject=f"{request.api}{asked} {span.subject}")
        )
    return spans, protocol.more


# Faults


def fault_at(story: Story, number: int) -> FaultReport:
    """Return a fault, counted from 1. Raises `UsageError`, or `UnreadableInput` if its times are wrong."""
    faults = story.faults
    if not 1 <= number <= len(faults):
        raise UsageError(f"the run has no fault {number}: it has {plural(len(faults), 'fault')}")
    fault = faults[number - 1]
    if None in (nanoseconds(fault.start_s), nanoseconds(fault.end_s or 0.0)):
        raise UnreadableInput(
            f"metadata.json has wrong times for fault {number}: from {fault.start_s} to {fault.end_s} s"
        )
    return fault


def fault_points(story: Story, begun_ns: int, ended_ns: int) -> Iterator[Point]:
    """Yield the begins and the ends of the faults in this interval. A fault that was not healed has no end."""
    for number, fault in enumerate(story.faults, 1):
        start, end = round(fault.start_s * 1e9), None if fault.end_s is None else round(fault.end_s * 1e9)
        if start <= ended_ns and (end is None or end >= begun_ns):
            actor = f"fault {number}"
            yield Point(start, actor, f"{fault.struck} ({fault.evidence})", "metadata.json", Kind.FAULT)
            if end is not None:
                yield Point(end, actor, f"{fault.fault} is over", "metadata.json", Kind.HEAL)
