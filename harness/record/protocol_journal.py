"""`protocol.jsonl`, the journal of the protocol proxy: its lines, its writer and its reader.

The proxy writes a line `request` for each request, when its response has passed or its connection has ended. It writes
a line `event` for each thing that a rule did, with the request as it then was (`changed`). A line never holds the body
of a message. All times are nanoseconds on the monotonic clock of the machine of the run; `[run] monotonic_ns_at_zero`
in `run.toml` is the start of the run on this clock.
"""

import math
import re
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import orjson

JOURNAL = "protocol.jsonl"
UNNAMED_RULE = "rule"
"""The name of a user's rule in the journal, before its number."""
MAX_REQUESTS = 1000
"""The largest number of changed requests that `read_journal` returns, unless it is asked for transactional ids."""
_TIMES = ("seen_ns", "delivered_ns", "answered_ns", "returned_ns", "client_gone_ns")
_LISTS = ("transactional_ids", "groups", "errors", "broker_errors")
_OUTCOMES = ("released", "answered", "lost")
"""The events that are not acts of a rule. They say what came of one."""
_PLAIN = (b'"errors":[]', b'"rule":null')
"""The line of a request has both if no rule acted on it and no error was in it."""
_RESPONSE_DROPPED = "its response was dropped"
"""The event of a rule that drops a response."""
_BETWEEN_TRIES = ("FindCoordinator", "Produce")
"""The requests with a transactional id that a client may send between two tries of another one."""
FLUSH_BYTES = 64 * 1024


@dataclass
class RequestRecord:
    """One request on its way, and its response."""

    number: int  # in this journal, from 1
    connection: int
    link: str
    api: str
    version: int
    correlation: int
    client_id: str | None
    bytes: int
    seen_ns: int  # when it came from the client
    transactional_ids: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    asked: Literal["commit", "abort"] | None = None  # of EndTxn
    delivered_ns: int | None = None  # when it was sent to the broker; None: it was not
    answered_ns: int | None = None  # when the broker's response came; None: none came
    returned_ns: int | None = None  # when a response was sent to the client; None: the client got none
    client_gone_ns: int | None = None  # when its client's connection ended, if it had no response by then
    errors: tuple[str, ...] = ()  # in the response to the client; if it got none, in the broker's
    broker_errors: tuple[str, ...] | None = None  # in the broker's response, if a rule changed them
    rule: str | None = None  # the rule that acted on it
    copy_of: int | None = None  # the number of the request of which it is a duplicate

    def __str__(self) -> str:
        """Describe it: `EndTxn of shop-1, correlation 41`."""
        names = ", ".join(self.names)
        return f"{self.api}{f' of {names}' if names else ''}, correlation {self.correlation}"

    @property
    def names(self) -> tuple[str, ...]:
        """Its transactional ids, or else its groups, or else its client id."""
        return self.transactional_ids or self.groups or tuple(filter(None, (self.client_id,)))

    @property
    def broker(self) -> str:
        """The broker at the end of its link."""
        return self.link.partition("->")[2].partition(":")[0]

    @property
    def errors_text(self) -> str:
        """The errors in its response, in words. `NONE`: it has none."""
        return ", ".join(self.errors) or "NONE"


@dataclass(frozen=True)
class RuleEvent:
    """One thing that a rule did: `held`, `released`, `answered`, `dropped`, ..."""

    rule: str
    event: str
    at_ns: int
    request: int
    words: str  # in words, for proofs
    reason: str = ""  # of a release, why it was then: `when AddOffsetsToTxn request 16 was seen`


@dataclass(frozen=True)
class RequestStep:
    """One thing that happened to a request."""

    kind: Literal["sent", "acted", "delivered", "answered"]
    at_ns: int
    words: str  # `held by late-end-txn`

    def __str__(self) -> str:
        """Return the words with the time in seconds: `at 3.214 s held by late-end-txn`."""
        return f"at {self.at_s} {self.words}"

    @property
    def at_s(self) -> str:
        """The time in seconds: `3.214 s`."""
        return f"{self.at_ns / 1e9:,.3f} s"


@dataclass
class JournaledRequest:
    """A request in the journal, with what rules did to it and to its response. Most requests have no events."""

    request: RequestRecord
    events: list[RuleEvent] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The request: `EndTxn(abort) 41`."""
        request = self.request
        api = f"{request.api}({request.asked})" if request.asked else request.api
        return f"copy of {api}" if request.copy_of is not None else f"{api} {request.correlation}"

    @property
    def title(self) -> str:
        """The request and whose it is: `EndTxn(abort) 41 of payments-2`."""
        return f"{self.name} of {', '.join(self.request.names)}" if self.request.names else self.name

    def is_of(self, transactional_ids: Collection[str]) -> bool:
        """Return whether it is of one of these transactional ids."""
        return any(each in transactional_ids for each in self.request.transactional_ids)

    @property
    def rule(self) -> str:
        """The rule without the number that makes its name unique in the run."""
        return re.sub(r"-[0-9]+$", "", self.request.rule or "")

    @property
    def by(self) -> str:
        """The rule in words: its name, or `a rule` if the user gave it none."""
        return "a rule" if self.rule == UNNAMED_RULE else self.rule

    @property
    def lost_client(self) -> bool:
        """Whether the connection of its client had ended before the broker answered."""
        request = self.request
        dropped = request.copy_of is not None or any(each.event == _RESPONSE_DROPPED for each in self.events)
        unreturned = request.answered_ns is not None and request.returned_ns is None
        return request.client_gone_ns is not None or (unreturned and not dropped)

    @property
    def action(self) -> str:
        """The acts of the rule: `held by late-end-txn`."""
        own = [event.event for event in self.events if event.event not in _OUTCOMES]
        return self._by_rule(", ".join(own) or ("made" if self.request.copy_of is not None else "answered"))

    @property
    def reason(self) -> str:
        """Why it was delivered when it was: `when AddOffsetsToTxn request 16 was seen`. Empty if it was not kept."""
        delivered_ns = self.request.delivered_ns
        released = next((event for event in self.events if event.event == "released"), None)
        kept = released is not None and delivered_ns is not None and released.at_ns <= delivered_ns
        return released.reason if released is not None and kept else ""

    @property
    def answer(self) -> str:
        """The errors in the response: `NONE`, `NOT_COORDINATOR instead of NONE`. Empty: there was no response."""
        request = self.request
        if request.answered_ns is None and request.returned_ns is None and not request.errors:
            return ""
        instead = "" if request.broker_errors is None else f" instead of {_listed(request.broker_errors)}"
        return _listed(request.errors) + instead

    @property
    def answered_ns(self) -> int | None:
        """When it was answered by the broker, or else by the rule."""
        answered_ns = self.request.answered_ns
        return self.request.returned_ns if answered_ns is None else answered_ns

    @property
    def last_ns(self) -> int:
        """The time of the last thing that is known of it."""
        return max(step.at_ns for step in self.steps())

    def repeats(self, earlier: "JournaledRequest") -> bool:
        """Return whether it asks for the same as an earlier request."""
        mine, other = self.request, earlier.request
        return (mine.api, mine.transactional_ids, mine.groups, mine.asked) == (
            *(other.api, other.transactional_ids, other.groups, other.asked),
        )

    def steps(self) -> list[RequestStep]:
        """Return what happened to it, in order of time."""
        return sorted(self._steps(), key=lambda step: step.at_ns)

    def describe(self) -> str:
        """Return the request and its steps in one sentence, with times in seconds."""
        return f"{self.title}: {'; '.join(map(str, self.steps()))}"

    def _steps(self) -> Iterator[RequestStep]:
        request = self.request
        acts = [event for event in self.events if event.event not in _OUTCOMES]
        begin = self._by_rule("made") if request.copy_of is not None else "sent"
        if acts and (request.delivered_ns is None or acts[0].at_ns <= request.delivered_ns):
            begin = f"{begin}, and {self._by_rule(acts.pop(0).event)}"
        yield RequestStep("sent", request.seen_ns, begin)
        for event in acts:
            yield RequestStep("acted", event.at_ns, self._by_rule(event.event))
        for event in self.events:
            if event.event == "lost":
                yield RequestStep("acted", event.at_ns, "the broker closed the connection before it answered")
            elif event.event == "released" and request.delivered_ns is not None and not self.reason:
                was = "returned" if request.client_gone_ns is None else "due"
                yield RequestStep("acted", event.at_ns, f"its response was {was} {event.reason}")
        if request.client_gone_ns is not None:
            yield RequestStep("acted", request.client_gone_ns, "its client's connection ended")
        if request.delivered_ns is not None:
            words = filter(None, ("delivered to broker", request.broker, self.reason))
            yield RequestStep("delivered", request.delivered_ns, " ".join(words))
        if self.answered_ns is not None:
            by = "" if request.delivered_ns is not None else f" by {self.by}, and never delivered"
            gone = ", which its client did not get" if self.lost_client else ""
            yield RequestStep("answered", self.answered_ns, f"answered {self.answer}{by}{gone}")

    def _by_rule(self, words: str) -> str:
        return f"{words} ({self.rule})" if " " in words else f"{words} by {self.by}"


@dataclass
class ProtocolJournal:
    """The contents of a journal that reports need."""

    changed: dict[int, JournaledRequest] = field(
        default_factory=dict
    )  # by number, in the order of first lines
    more: int = 0  # further requests that rules changed
    passed: list[JournaledRequest] = field(default_factory=list)
    """The requests that no rule changed, if `read_journal` was asked for transactional ids: those of these ids."""
    api_errors: dict[str, Counter[str]] = field(default_factory=dict)
    """By API and error: the number of responses with it that clients got. Those between brokers do not count."""
    missing: bool = False  # the run wrote it, and it is not there
    damaged: int = 0  # lines that cannot be read

    def under_way(
        self,
        transactional_ids: Collection[str] | None = None,
        from_ns: float = -math.inf,
        to_ns: float = math.inf,
    ) -> list[JournaledRequest]:
        """Return the changed requests that were under way in an interval, in the order in which they were sent.

        With `transactional_ids`, return only those of one of these ids.
        """
        changed = (
            each
            for each in self.changed.values()
            if (transactional_ids is None or each.is_of(transactional_ids))
            and each.request.seen_ns <= to_ns
            and each.last_ns >= from_ns
        )
        return sorted(changed, key=lambda each: each.request.seen_ns)

    def acted_from_ns(self, rules: Collection[str]) -> int | None:
        """Return when one of these rules first acted. None: none of them did."""
        events = (event for each in self.changed.values() for event in each.events)
        return min((event.at_ns for event in events if event.rule in rules), default=None)

    def retries(self) -> dict[int, JournaledRequest]:
        """Return, by the number of a client's retry, the changed request that it repeats.

        The journal must have been read for transactional ids. A retry is the next request of a transactional id after a
        changed one whose client got no response, if it asks for the same. Produce requests have none, because two of
        them in a row are not the same.
        """
        retries = {}
        in_order = sorted([*self.changed.values(), *self.passed], key=lambda each: each.request.seen_ns)
        for n, earlier in enumerate(in_order):
            request = earlier.request
            if request.rule is None or request.returned_ns is not None or request.copy_of is not None:
                continue
            later = (
                each
                for each in in_order[n + 1 :]
                if each.is_of(request.transactional_ids)
                and each.request.copy_of is None
                and each.request.api not in _BETWEEN_TRIES
            )
            following = next(later, None)
            if following is not None and following.repeats(earlier):
                retries[following.request.number] = earlier
        return retries


def read_journal(
    path: Path, zero_ns: int = 0, transactional_ids: Collection[str] | None = None
) -> ProtocolJournal:
    """Read a journal line by line. A journal that does not exist is empty. Raises `OSError`.

    Args:
        path: the journal; it may be larger than the memory
        zero_ns: the time of the journal's clock from which the times in the result count
        transactional_ids: return all requests of these ids. None: return the changed requests of all ids; at most
            `MAX_REQUESTS` are returned, the others are counted
    """
    journal, others = ProtocolJournal(), set[int]()
    if not path.exists():
        return journal
    wanted = [orjson.dumps(each) for each in transactional_ids or ()]
    with path.open("rb") as lines:
        for line in lines:
            if all(each in line for each in _PLAIN) and not any(each in line for each in wanted):
                continue
            try:
                _add(journal, others, orjson.loads(line), zero_ns, transactional_ids)
            except (ValueError, TypeError, KeyError):  # the line was cut off or changed
                journal.damaged += 1
    journal.more = len(others)
    return journal


def read_requests(path: Path, start: int) -> Iterator[RequestRecord]:
    """Yield the requests whose lines are in a journal behind this number of bytes.

    The proxy may be writing the last line, so a line without its end does not count.
    """
    with path.open("rb") as file:
        file.seek(start)
        for line in file:
            if line.endswith(b"\n") and (body := orjson.loads(line).get("request")) is not None:
                yield _request(body, 0)


def _add(
    journal: ProtocolJournal,
    others: set[int],
    line: Mapping[str, Any],
    zero_ns: int,
    ids: Collection[str] | None,
) -> None:
    is_event = "event" in line
    request = _request(line["changed" if is_event else "request"], zero_ns)
    if request.number in journal.changed:
        journal.changed[request.number].request = request
    elif request.rule is None:
        if JournaledRequest(request).is_of(ids or ()):
            journal.passed.append(JournaledRequest(request))
    elif request.number not in others and (ids is None or JournaledRequest(request).is_of(ids)):
        if ids is not None or len(journal.changed) < MAX_REQUESTS:
            journal.changed[request.number] = JournaledRequest(request)
        else:
            others.add(request.number)
    if is_event:
        event = line["event"]
        if request.number in journal.changed:
            at_ns = _since(zero_ns, event["at_ns"])
            journal.changed[request.number].events.append(RuleEvent(**{**event, "at_ns": at_ns}))
        return
    if request.errors and request.returned_ns is not None and not request.link.startswith("peer:"):
        journal.api_errors.setdefault(request.api, Counter()).update(request.errors)


def _request(body: Mapping[str, Any], zero_ns: int) -> RequestRecord:
    body = {"client_gone_ns": None, **body}  # older journals do not have it
    times = {name: None if body[name] is None else _since(zero_ns, body[name]) for name in _TIMES}
    lists = {name: tuple(map(_text, body[name])) for name in _LISTS if body[name] is not None}
    request = RequestRecord(**{**body, **times, **lists})
    for text in (request.api, request.link, request.client_id, request.rule):
        _text("" if text is None else text)
    return request


def _since(zero_ns: int, time_ns: int) -> int:
    """Return a time of the journal as nanoseconds since `zero_ns`. Raises TypeError if it is not an integer."""
    if type(time_ns) is not int:
        raise TypeError(f"{time_ns!r} is not a time")
    return time_ns - zero_ns


def _text(value: str) -> str:
    """Return the value. Raises TypeError if it is not a text."""
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    return value


def _listed(errors: tuple[str, ...]) -> str:
    return ", ".join(errors) or "NONE"


@dataclass
class ProxyJournal:
    """Writes the journal. Events of rules are written at once, requests in blocks."""

    path: Path
    _file: Any = field(init=False)
    _lines: list[bytes] = field(default_factory=list)
    _size: int = 0

    def __post_init__(self) -> None:
        self._file = self.path.open("ab", buffering=0)

    def write_request(self, request: RequestRecord) -> None:
        """Write a request whose response has passed, or whose connection has ended."""
        self._add(orjson.dumps({"request": request}))
        if self._size >= FLUSH_BYTES:
            self.flush()

    def write_event(self, event: RuleEvent, request: RequestRecord) -> None:
        """Write what a rule did with a request, and the request as it is now, at once."""
        self._add(orjson.dumps({"event": event, "changed": request}))
        self.flush()

    def flush(self) -> None:
        """Write all lines that are not written yet."""
        if self._lines:
            self._file.write(b"".join(self._lines))
            self._lines, self._size = [], 0

    def _add(self, line: bytes) -> None:
        self._lines.append(line + b"\n")
        self._size += len(line) + 1


def now_ns() -> int:
    """Return the time on the monotonic clock."""
    return time.monotonic_ns()
