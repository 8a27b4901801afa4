"""The space of cases: each request of a program, each kind of fault, and each place of a release.

A request is named by its API and its place among the requests of that API: `EndTxn#2`. Retries are not counted. A rule
comes into force just before the step of the program that sends its request, and selects the first message of the API
after that, because the number of retries differs from one time to the next.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from harness.protocol.cases import OVER, Case, CaseOutcome
from harness.protocol.rule_checks import possible_errors
from harness.protocol.rules import Action, ProtocolRule, Release, Selector, When
from harness.record.protocol_journal import RequestRecord

APIS = (
    "InitProducerId",
    "AddPartitionsToTxn",
    "Produce",
    "AddOffsetsToTxn",
    "TxnOffsetCommit",
    "EndTxn",
)
"""The APIs of a transaction."""
PARTS = ("C", "A", "B", "K", "R")
"""The parts of a program, see `workloads.loop.programs`."""
LATE_S = 0.4
"""How much later a response comes. A client waits for it: no time-out of a client is as short."""
ERRORS = {
    "retriable": ("NOT_LEADER_OR_FOLLOWER", "NOT_COORDINATOR"),
    "concurrent": ("CONCURRENT_TRANSACTIONS", "COORDINATOR_LOAD_IN_PROGRESS"),
    "abortable": ("ILLEGAL_GENERATION", "TRANSACTION_ABORTABLE", "INVALID_PRODUCER_EPOCH"),
    "fenced": ("PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"),
    "unknown": ("UNKNOWN_SERVER_ERROR",),
}
"""By class, the errors that stand for it: of an API, the first that it can answer."""


class CaseKind(StrEnum):
    """A kind of fault on a request."""

    HOLD = "hold"  # it is kept, its client is disconnected, and it is delivered late
    DUPLICATE = "duplicate"  # a copy of it is delivered, at once or late
    REQUEST_LOST = "request-lost"
    RESPONSE_LOST = "response-lost"
    RESPONSE_LATE = "response-late"
    DISCONNECT = "disconnect"  # the broker carries it out, and the connection is closed
    ERROR_INSTEAD = "error-instead"  # the broker never gets it
    ERROR_AFTER = "error-after"  # the broker carries it out


@dataclass(frozen=True)
class Request:
    """A request of a program."""

    api: str
    number: int  # among those of its API
    step: str  # the step that sends it: `2.end`

    def __str__(self) -> str:
        return f"{self.api}#{self.number}"


def requests_of(outcome: CaseOutcome, journal: Iterable[RequestRecord]) -> list[Request]:
    """Return the requests of a case that was carried out without a rule, in order, and without retries.

    Args:
        journal: The requests of its transactional id.
    """
    sent: list[Request] = []
    over_ns = next((at_ns for at_ns, step in outcome.steps if step == OVER), math.inf)
    for record in sorted(journal, key=lambda record: record.seen_ns):
        if record.seen_ns >= over_ns:
            break
        step = next((step for at_ns, step in reversed(outcome.steps) if at_ns <= record.seen_ns), None)
        same = [request for request in sent if request.api == record.api]
        if record.api in APIS and step is not None and step not in [request.step for request in same]:
            sent.append(Request(record.api, len(same) + 1, step))
    return sent


def cases_of(
    program: str,
    requests: Sequence[Request],
    kinds: Iterable[CaseKind] = tuple(CaseKind),
    *,
    all_errors: bool = False,
) -> Iterator[Case]:
    """Yield the cases of a program: each without its number.

    Args:
        all_errors: Try every error that an API can answer, instead of one of each class.
    """
    for index, request in enumerate(requests):
        for kind in kinds:
            for until, rule in _rules(kind, requests, index, all_errors):
                name = f"{program} {kind} {request}{until}"
                yield Case(0, name, program, request.step, rule)


def _rules(
    kind: CaseKind, requests: Sequence[Request], index: int, all_errors: bool
) -> Iterator[tuple[str, ProtocolRule]]:
    """Yield the rules of a kind about one request, each with the end of the name of its case."""
    api = requests[index].api
    match kind:
        case CaseKind.HOLD:
            # Its client sends it again before it goes on.
            for until, after in _releases(requests, index, (Selector(api),)):
                yield until, _rule(api, Action.HOLD, release=Release(after))
        case CaseKind.DUPLICATE:
            yield " > now", _rule(api, Action.DUPLICATE, release=Release(after_s=0.0))
            for until, after in _releases(requests, index, ()):
                yield until, _rule(api, Action.DUPLICATE, release=Release(after))
        case CaseKind.REQUEST_LOST:
            yield "", _rule(api, Action.DROP)
        case CaseKind.RESPONSE_LOST:
            yield "", _rule(api, Action.DROP, message="response")
        case CaseKind.RESPONSE_LATE:
            yield "", _rule(api, Action.DELAY, message="response", release=Release(after_s=LATE_S))
        case CaseKind.DISCONNECT:
            yield "", _rule(api, Action.CLOSE, when=When.AFTER)
        case CaseKind.ERROR_INSTEAD | CaseKind.ERROR_AFTER:
            when = When.INSTEAD if kind is CaseKind.ERROR_INSTEAD else When.AFTER
            for error in errors_of(api, all_errors):
                yield f" = {error}", _rule(api, Action.ERROR, error=error, when=when)


def _releases(
    requests: Sequence[Request], index: int, first: tuple[Selector, ...]
) -> Iterator[tuple[str, tuple[Selector, ...]]]:
    """Yield each place of a release after a request: just before each later request, and after the last response."""
    later = requests[index + 1 :]
    for count, request in enumerate(later, 1):
        yield f" > {request}", (*first, *(Selector(each.api) for each in later[:count]))
    last = Selector(requests[-1].api, "response")
    yield " > end", (*first, *(Selector(each.api) for each in later), last)


def errors_of(api: str, all_errors: bool) -> list[str]:
    """Return the errors that are tried with an API."""
    possible = possible_errors()[api]
    if all_errors:
        return list(possible)
    return [next(error for error in errors if error in possible) for errors in ERRORS.values()]


def _rule(api: str, action: Action, message: str = "request", **more: object) -> ProtocolRule:
    """Return a rule that does not name the transactional id yet."""
    return ProtocolRule(name="case", select=Selector(api, message), action=action, **more)  # type: ignore[arg-type]
