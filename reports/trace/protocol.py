"""The steps of the requests that went through the protocol proxy."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence

from harness.record.protocol_journal import JOURNAL, JournaledRequest, ProtocolJournal
from harness.record.table_reader import MOST_CHANGED_REQUESTS, RunTables
from harness.results.wording import plural
from reports.trace.step import TraceStep

KEPT_NS = 50_000_000
"""A request that is delivered later than this after it came was kept."""


def requests_of(
    t: RunTables, transactional_ids: Collection[str], from_ns: float = -math.inf, to_ns: float = math.inf
) -> Iterator[TraceStep]:
    """Yield the requests of these transactional ids that were under way in this interval: what happened to those that
    a rule changed, and one step for each other one. The retry of a changed request is shown with it.

    Args:
        t: the run
        transactional_ids: whose requests
        from_ns: the start of the interval, since the start of the run
        to_ns: the end of the interval
    """
    journal = t.protocol_of(transactional_ids)
    yield from _missing(journal)
    retries = journal.retries()
    changed = journal.under_way(transactional_ids, from_ns, to_ns)
    yield from _steps(changed, retries)
    numbers = {each.request.number for each in changed}
    for each in journal.passed:
        earlier = retries.get(each.request.number)
        of_shown = earlier is not None and earlier.request.number in numbers
        if of_shown or (each.request.seen_ns <= to_ns and each.last_ns >= from_ns):
            words = f"{each.title}: {_again(each, retries)}{_in_one_line(each)}"
            yield TraceStep(each.request.seen_ns, "protocol proxy", words, JOURNAL)


def changed_requests(t: RunTables, rule: str, from_ns: float, to_ns: float) -> Iterator[TraceStep]:
    """Yield what happened to the requests that a rule changed and that were under way in this interval."""
    yield from _missing(t.protocol)
    yield from _steps(
        [each for each in t.protocol.under_way(None, from_ns, to_ns) if each.rule == rule], retries={}
    )


def _missing(journal: ProtocolJournal) -> Iterator[TraceStep]:
    if journal.missing:
        yield TraceStep(
            None, "protocol proxy", f"{JOURNAL} is missing, so its requests are not known", JOURNAL
        )


def _steps(
    changed: Sequence[JournaledRequest], retries: Mapping[int, JournaledRequest]
) -> Iterator[TraceStep]:
    for each in changed[:MOST_CHANGED_REQUESTS]:
        for step in each.steps():
            again = _again(each, retries) if step.kind == "sent" else ""
            yield TraceStep(step.at_ns, "protocol proxy", f"{each.title}: {again}{step.words}", JOURNAL)
    if others := changed[MOST_CHANGED_REQUESTS:]:
        words = f"{plural(len(others), 'more request')} that a rule changed: see {JOURNAL}"
        yield TraceStep(others[0].request.seen_ns, "protocol proxy", words, JOURNAL)


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
