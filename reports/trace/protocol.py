"""The steps of the requests that a rule of the protocol proxy changed."""

import math
from collections.abc import Collection, Iterator

from harness.record.protocol_journal import JOURNAL
from harness.results.wording import plural
from reports.run_tables import MOST_CHANGED_REQUESTS, RunTables
from reports.trace.step import TraceStep


def changed_requests(
    t: RunTables,
    transactional_ids: Collection[str] | None,
    from_ns: float = -math.inf,
    to_ns: float = math.inf,
    rule: str | None = None,
) -> Iterator[TraceStep]:
    """Yield what happened to the requests of these transactional ids that were under way in this interval.

    Args:
        t: the run
        transactional_ids: None: the requests of all clients
        from_ns: the begin of the interval, since the start of the run
        to_ns: the end of the interval
        rule: only the requests that this rule changed
    """
    journal = t.protocol if transactional_ids is None else t.protocol_of(transactional_ids)
    changed = [
        each
        for each in journal.under_way(transactional_ids, from_ns, to_ns)
        if rule is None or each.rule == rule
    ]
    for each in changed[:MOST_CHANGED_REQUESTS]:
        for step in each.steps():
            yield TraceStep(step.at_ns, "protocol proxy", f"{each.title}: {step.words}", JOURNAL)
    if others := changed[MOST_CHANGED_REQUESTS:]:
        words = f"{plural(len(others), 'more request')} that a rule changed: see {JOURNAL}"
        yield TraceStep(others[0].request.seen_ns, "protocol proxy", words, JOURNAL)
