"""The space of cases of an exploration, and the record of those that were tried: `explore.json`.

A request is named by its API and its place among the requests of that API: `EndTxn#2`. Retries are not counted. A rule
comes into force just before the step of the program that sends its request, and selects the first message of the API
after that, because the number of retries differs from one time to the next.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct, field, structs

from harness.common.documents import decode, encode, json_text, read_json
from harness.common.errors import UnreadableInput, UsageError
from harness.common.wording import check_name, on_one_line
from harness.protocol.cases import OVER, Case, CaseFault, CaseOutcome
from harness.protocol.rule_checks import possible_errors
from harness.protocol.rules import Action, ClientConnection, ProtocolRule, Release, Selector, When
from harness.record.protocol_journal import RequestRecord
from harness.results.reasons import Reason
from harness.results.verdict import Validity

FILE = "explore.json"
TIMES_ALONE = 3
"""How often a case that was not right is tried alone."""


SentRequest = tuple[str, int, str, int]
"""A request of a program, as in `fencepost.exploration.space.Request`: API, number, step, number in the step."""
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


class CaseVerdict(StrEnum):
    """The verdict of a case."""

    RIGHT = "right"
    WRONG = "wrong"  # there is an anomaly
    FENCED = "fenced"  # its client needed a new producer, and then all was right
    STUCK = "stuck"  # it did not end
    NOT_MET = "not-met"  # its rule had no effect


class TriedCase(Struct, omit_defaults=True):
    """A case that was tried in a batch, and what came of it alone."""

    verdict: CaseVerdict
    batch: Annotated[str, Meta(description="the run folder")]
    number: Annotated[int, Meta(description="its partition in that run")]
    anomalies: list[str] = []
    proof: Annotated[str, Meta(description="what its rule did, or why it had no effect")] = ""
    errors: Annotated[list[str], Meta(description="errors after which its client needed a new producer")] = []
    stuck: str = ""
    changed: Annotated[
        list[SentRequest],
        Meta(description="with --pairs: the requests it sent, if they differ from those without a fault"),
    ] = []
    why: Annotated[list[str], Meta(description="for each anomaly, a sentence about its first finding")] = []
    alone: Annotated[
        list["TriedCase"], Meta(description="the same for each time that it was tried alone")
    ] = []

    @property
    def tries(self) -> "list[TriedCase]":
        """All times that it was tried: in a batch, and alone."""
        return [self, *self.alone]

    @property
    def settled(self) -> CaseVerdict:
        """Its verdict: wrong if it was wrong once; else right or fenced, if it was that once."""
        verdicts = [each.verdict for each in self.tries]
        order = (CaseVerdict.WRONG, CaseVerdict.RIGHT, CaseVerdict.FENCED)
        return next((each for each in order if each in verdicts), self.verdict)

    @property
    def found(self) -> list[str]:
        """The anomalies of all times that it was tried."""
        return list(dict.fromkeys(name for each in self.tries for name in each.anomalies))

    @property
    def confirmed(self) -> bool:
        """Whether each try alone had the same anomaly."""
        found = [set(each.anomalies) for each in self.alone]
        return len(found) >= TIMES_ALONE > 0 and bool(set.intersection(*found))

    @property
    def times_due(self) -> int:
        """How often it must still be tried alone."""
        is_clear = self.settled in (CaseVerdict.RIGHT, CaseVerdict.FENCED)
        return 0 if is_clear else max(0, TIMES_ALONE - len(self.alone))

    @property
    def is_open(self) -> bool:
        """Whether its verdict is not certain: it was never met, it did not end, or it is wrong and not confirmed."""
        return not self.confirmed and self.settled not in (CaseVerdict.RIGHT, CaseVerdict.FENCED)

    @property
    def unsteady(self) -> bool:
        """Whether it was wrong, and was tried alone often enough, and not the same each time."""
        return self.settled is CaseVerdict.WRONG and len(self.alone) >= TIMES_ALONE and not self.confirmed

    @property
    def alone_words(self) -> str:
        """How often it was wrong alone: `3 of 3`."""
        return f"{sum(each.verdict is CaseVerdict.WRONG for each in self.alone)} of {len(self.alone)}"


class Scope(Struct, frozen=True):
    """What is explored. Two explorations with the same scope try the same cases."""

    programs: tuple[str, ...]
    kinds: tuple[str, ...]
    all_errors: bool = False
    members: bool = False  # the workers are members of their group
    pairs: bool = False  # also a second fault behind each that changed the requests
    brokers: int = 1

    @property
    def sorted(self) -> "Scope":
        """The same, in an order that does not depend on the command."""
        return structs.replace(self, programs=tuple(sorted(self.programs)), kinds=tuple(sorted(self.kinds)))


class Exploration(Struct):
    """An exploration of one client."""

    client: str
    kafka: str
    transaction_version: int
    scope: Scope
    command: str = "fencepost explore"  # with the options of the client and the cluster
    only: str = ""  # the name of the only case that is tried; empty: all are
    sent: dict[str, list[SentRequest]] = field(default_factory=dict)
    """By program, its requests without faults."""
    cases: dict[str, TriedCase] = field(default_factory=dict)  # by name
    all_cases: int = 0
    not_offered: list[str] = field(default_factory=list)  # programs for which the client lacks a step
    wrong_without_fault: dict[str, list[str]] = field(default_factory=dict)
    """By program that is wrong without a fault, the anomalies of all recordings. It has no cases."""
    unknown_because: list[Reason] = field(default_factory=list)  # of its batches
    ended: str = ""  # the UTC time of the last batch, as ISO 8601
    finished: bool = False  # all cases were tried, and alone as often as they must be
    made_by: str = ""  # the version of Fencepost, and a digest of the driver

    def goes_on(self, other: "Exploration", folder: Path) -> bool:
        """Return whether this record, which is in a folder, can be continued as the other one begins.

        Cases whose batch is no longer there are forgotten.
        """
        if self.finished or self.made_by != other.made_by or self.scope.sorted != other.scope.sorted:
            return False
        for name, case in list(self.cases.items()):
            if not all((folder / each.batch / "verdict.json").is_file() for each in case.tries):
                del self.cases[name]
        return True

    @property
    def validity(self) -> Validity:
        """The verdict."""
        if any(case.confirmed for case in self.cases.values()) or any(self.wrong_without_fault.values()):
            return Validity.INVALID
        is_open = self.unknown_because or self.wrong_without_fault
        if not self.cases or is_open or any(case.is_open for case in self.cases.values()):
            return Validity.UNKNOWN
        return Validity.VALID

    @property
    def counts(self) -> Counter[CaseVerdict]:
        """The number of cases by verdict."""
        return Counter(case.settled for case in self.cases.values())

    def save(self, folder: Path) -> None:
        """Write `explore.json`. If this is interrupted, the old file stays."""
        folder.mkdir(parents=True, exist_ok=True)
        new = folder / f"{FILE}.new"
        new.write_text(json_text(encode(self)), encoding="utf-8")
        new.replace(folder / FILE)


def load(folder: Path) -> Exploration | None:
    """Read the exploration in a folder. None: there is none. Raises `UnreadableInput`."""
    path = folder / FILE
    if not path.exists():
        return None
    try:
        return decode(read_json(path), Exploration)
    except ValueError as error:
        raise UnreadableInput(f"{path} cannot be read: {error}; begin again with --again") from error


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
