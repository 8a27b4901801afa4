"""The space of cases: each request of a program, each kind of fault, and each place of a release.

A request is named by its API and its place among the requests of that API: `EndTxn#2`. Retries are not counted. A rule
comes into force just before the step of the program that sends its request, and selects the first message of the API
after that, because the number of retries differs from one time to the next.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from msgspec import structs

from fencepost.exploration.record import Scope
from harness.common.errors import UsageError
from harness.common.wording import check_name, on_one_line
from harness.protocol.cases import OVER, Case, CaseFault, CaseOutcome
from harness.protocol.rule_checks import possible_errors
from harness.protocol.rules import Action, ClientConnection, ProtocolRule, Release, Selector, When
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
PARTS = ("C", "c", "A", "a", "B", "K", "R")
"""The parts of a program, see `workloads.loop.programs`."""
PROGRAMS = ("CC", "AC", "CA", "CKC")
"""The programs of an exploration that names none."""
PAIR = " + "
"""Between the names of the two faults of a case."""
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
    STALL = "stall"  # as hold, but its client is not disconnected and waits until its own time-out


BY_DEFAULT = tuple(kind for kind in CaseKind if kind is not CaseKind.STALL)
"""All kinds but `stall`, whose cases take several seconds each."""


@dataclass(frozen=True)
class Request:
    """A request of a program."""

    api: str
    number: int  # among those of its API
    step: str  # the step that sends it: `2.end`
    nth: int = 1  # among those of its API and step

    def __str__(self) -> str:
        return f"{self.api}#{self.number}"


def scope_of(
    programs: Iterable[str] = PROGRAMS,
    kinds: Iterable[str] = BY_DEFAULT,
    *,
    all_errors: bool = False,
    members: bool = False,
    pairs: bool = False,
    brokers: int = 1,
) -> Scope:
    """Return what to explore. Raises `UsageError` for a program or a kind that does not exist."""
    names = tuple(dict.fromkeys(name.strip() for name in programs))
    for name in names:
        if not name or set(name) - set(PARTS):
            raise UsageError(
                f"a program has the parts {', '.join(PARTS)}, as in {', '.join(PROGRAMS)}, not {on_one_line(name)!r}"
            )
    chosen = tuple(dict.fromkeys(kind.strip() for kind in kinds))
    for kind in chosen:
        check_name("kind", kind, list(CaseKind))
    return Scope(names, chosen, all_errors, members, pairs, brokers)


def requests_of(outcome: CaseOutcome, journal: Iterable[RequestRecord]) -> list[Request]:
    """Return the requests of a case, in order, without retries and without what its rules delivered late or twice.

    A request is a retry if its client sent another one of this API in the same step, and got no success for it yet.

    Args:
        journal: The requests of its transactional id.
    """
    sent: list[Request] = []
    succeeded: Counter[tuple[str, str]] = Counter()
    over_ns = next((at_ns for at_ns, step in outcome.steps if step == OVER), math.inf)
    for record in sorted(journal, key=lambda record: record.seen_ns):
        if record.seen_ns >= over_ns:
            break
        step = next((step for at_ns, step in reversed(outcome.steps) if at_ns <= record.seen_ns), None)
        if record.api not in APIS or step is None or record.copy_of is not None:
            continue
        same = [request for request in sent if request.api == record.api]
        nth = succeeded[record.api, step] + 1
        if sum(request.step == step for request in same) < nth:
            sent.append(Request(record.api, len(same) + 1, step, nth))
        succeeded[record.api, step] += record.returned_ns is not None and not {*record.errors} - {"NONE"}
    return sent


def cases_of(
    program: str,
    requests: Sequence[Request],
    kinds: Iterable[CaseKind] = BY_DEFAULT,
    *,
    all_errors: bool = False,
) -> Iterator[Case]:
    """Yield the cases of a program: each without its number.

    Args:
        all_errors: Try every error that an API can answer, instead of one of each class.
    """
    for name, fault in _faults(requests, range(len(requests)), kinds, all_errors):
        yield Case(0, f"{program} {name}", program, (fault,))


def pairs_of(
    first: Case,
    recorded: Sequence[Request],
    requests: Sequence[Request],
    kinds: Iterable[CaseKind] = BY_DEFAULT,
    *,
    all_errors: bool = False,
) -> Iterator[Case]:
    """Yield the cases in which a second fault comes behind the fault of a case.

    Args:
        recorded: What the client sends without a fault. Of the outputs that it sends at once, the second is on its way
            when the fault of the first is known, so it can have a fault as well.
        requests: What the client sent under the first fault.
    """
    (fault,) = first.faults
    api, nth = fault.rule.select.apis[0], fault.rule.nth
    begin = next((n for n, request in enumerate(requests) if request.step == fault.stop), len(requests))
    later = [
        n for n in range(begin, len(requests)) if (requests[n].step, requests[n].api) != (fault.stop, api)
    ]
    beside = [
        n for n, each in enumerate(recorded) if (each.step, each.api) == (fault.stop, api) and each.nth > nth
    ]
    # The rule of the second fault does not see the message on which the first one acts.
    at_once = [
        (name, structs.replace(second, rule=structs.replace(second.rule, nth=second.rule.nth - 1)))
        for name, second in _faults(recorded, beside, kinds, all_errors)
    ]
    names = set()
    for name, second in [*at_once, *_faults(requests, later, kinds, all_errors)]:
        if name not in names:
            names.add(name)
            yield Case(0, f"{first.name}{PAIR}{name}", first.program, (fault, second))


def _faults(
    requests: Sequence[Request], places: Iterable[int], kinds: Iterable[CaseKind], all_errors: bool
) -> Iterator[tuple[str, CaseFault]]:
    """Yield the faults on the requests at these places, each with its name."""
    for index in places:
        request = requests[index]
        for kind in kinds:
            for until, rule in _rules(kind, requests, index, all_errors):
                yield (
                    f"{kind} {request}{until}",
                    CaseFault(request.step, structs.replace(rule, nth=request.nth)),
                )


def _rules(
    kind: CaseKind, requests: Sequence[Request], index: int, all_errors: bool
) -> Iterator[tuple[str, ProtocolRule]]:
    """Yield the rules of a kind about one request, each with the end of the name of its case."""
    api = requests[index].api
    match kind:
        case CaseKind.HOLD | CaseKind.STALL:
            client = ClientConnection.RESET if kind is CaseKind.HOLD else ClientConnection.STALL
            # Its client sends it again before it goes on.
            for until, after in _releases(requests, index, (Selector(api),)):
                yield until, _rule(api, Action.HOLD, client=client, release=Release(after))
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
