"""What all connections of the protocol proxy share: the schemas, the journal and the rules in force."""

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from harness.common.wording import HARNESS_CLIENT_ID
from harness.processes.messages import ProcessMessage
from harness.protocol.active import ActiveRule, Kept
from harness.protocol.observed_clients import LinkClients, ObservedClients, describe
from harness.protocol.rules import Frame, ProtocolRule
from harness.protocol.schemas import API_VERSIONS, Direction, Field, Message, Schemas, UnknownMessage
from harness.record.protocol_journal import ProxyJournal, RequestRecord

ALWAYS_DECODED = (
    "InitProducerId",
    "AddPartitionsToTxn",
    "AddOffsetsToTxn",
    "TxnOffsetCommit",
    "EndTxn",
    "WriteTxnMarkers",
    "FindCoordinator",
    "JoinGroup",
    "SyncGroup",
    "LeaveGroup",
    "ConsumerGroupHeartbeat",
    "StreamsGroupHeartbeat",
    "OffsetCommit",
    "ApiVersions",
)
"""The APIs whose requests are small and say who a client is. Others are decoded only if a rule names them."""
RESPONSES_DECODED = ("Produce", "Heartbeat", "ListOffsets", "OffsetFetch", "Metadata")
"""Further APIs whose responses are decoded, because they are small and have the errors that clients meet. Metadata has
the ids of topics.
"""
_log = logging.getLogger("proxy")


class HeldRequest(ProcessMessage, frozen=True):
    """A request that a rule keeps until its transaction is in a state. The proxy cannot know the state."""

    number: int  # of the request in this proxy
    transactional_id: str


class ReleaseOrder(ProcessMessage, frozen=True):
    """The order of the run to deliver a request that a rule keeps."""

    rule: str
    number: int
    reason: str  # completes "it was delivered ..."
    in_time: bool = True  # False: its transaction was not in the state, and the rule is healed


class ProxyRequest(ProcessMessage, frozen=True):
    """A message of the run to the proxy. Exactly one field besides the number is set."""

    number: int = 0  # of the message; the reply begins with it
    add: ProtocolRule | None = None
    release: ReleaseOrder | None = None
    remove: str | None = None  # the name of a rule: deliver what it keeps, and forget it
    status: str | None = None  # the name of a rule
    clients: tuple[str, ...] | None = None  # links; the reply is an `ObservedClients`
    undecoded: bool = False  # the reply is an `UndecodedMessages`


class RuleStatus(ProcessMessage, frozen=True):
    """The acts of a rule so far. It is the reply to each message about a rule."""

    matched: int = 0
    acted: int = 0
    proved: int = 0  # messages on which it is known to have had its effect
    kept: int = 0  # messages of which something may still come
    words: tuple[str, ...] = ()  # what it did, in order
    error: str = ""
    await_states: tuple[HeldRequest, ...] = ()  # the requests that the run must release
    missed: int = 0  # kept messages that were delivered although their release had not come
    seen: int = 0  # requests of the rule's APIs on its links since it is in force
    seen_before: int = 0  # such requests before that


class UndecodedMessages(ProcessMessage, frozen=True):
    """The messages that passed unchanged because they cannot be decoded."""

    words: tuple[str, ...]


@dataclass
class ProxyState:
    """What all connections share."""

    schemas: Schemas
    journal: ProxyJournal
    later: Callable[[float, Callable[[], None]], object]
    """Does something after a time in seconds."""
    rules: dict[str, ActiveRule] = field(default_factory=dict)
    clients: dict[str, LinkClients] = field(default_factory=lambda: defaultdict(LinkClients))  # by link
    seen: Counter[tuple[str, str]] = field(default_factory=Counter)  # requests by link and API
    topics: dict[bytes, str] = field(default_factory=dict)  # by topic id: the name
    decoded_requests: frozenset[int] = frozenset()
    decoded_responses: frozenset[int] = frozenset()
    _number: int = 0
    _reported: set[str] = field(default_factory=set)
    _undecoded: Counter[str] = field(default_factory=Counter)  # by words without their number
    _undecoded_because: dict[str, str] = field(default_factory=dict)  # the error of the first

    def __post_init__(self) -> None:
        self._choose_decoded()

    def next_number(self) -> int:
        """Return the number of the next request."""
        self._number += 1
        return self._number

    def api_name(self, key: int) -> str:
        """Return the name of an API, or its key if it is not known."""
        try:
            return self.schemas.api(key).name
        except UnknownMessage:
            return str(key)

    def report(self, message: str) -> None:
        """Write to the log what went wrong, once for each message."""
        if message not in self._reported:
            self._reported.add(message)
            _log.warning(message)

    def passed_undecoded(self, key: int, direction: Direction, link: str, error: Exception) -> None:
        """Count a message that passed unchanged because it cannot be decoded, and so was seen by no rule.

        An ApiVersions request of an unknown version is not counted: a client tries its newest version first, and the
        broker answers it in version 0 (KIP-511).
        """
        if key == API_VERSIONS and isinstance(error, UnknownMessage):
            return
        words = f"{self.api_name(key)} {direction}s on {link}"
        if words not in self._undecoded:
            self._undecoded_because[words] = str(error)
            _log.warning(f"{words} pass unchanged: {error}")
        self._undecoded[words] += 1

    @property
    def undecoded(self) -> UndecodedMessages:
        """The messages that passed unchanged because they cannot be decoded."""
        return UndecodedMessages(
            tuple(
                f"{count} {words} ({self._undecoded_because[words]})"
                for words, count in self._undecoded.items()
            )
        )

    # Clients

    def note_request(self, request: RequestRecord, body: Message) -> None:
        """Take notice of a request that a client has sent. The body is empty if the request is not decoded.

        Requests of the harness itself do not count.
        """
        if request.client_id == HARNESS_CLIENT_ID:
            return
        self.clients[request.link].note(request, body)
        self.seen[request.link, request.api] += 1

    def observed_clients(self, links: Sequence[str]) -> ObservedClients:
        """Return what the requests on these links say about their clients."""
        return describe(self.clients[link] for link in links)

    # Topics

    def complete(self, frame: Frame) -> None:
        """Add the names of topics to a message that names them by id, as Produce does since version 13 (KIP-516).

        A client asks for the metadata of its topics before it uses their ids, so the proxy has seen the names.
        """
        api = self.schemas.api(frame.api)
        if frame.api == "Metadata" and frame.message == "response":
            for topic in frame.body["Topics"] or ():
                if topic.get("TopicId") and topic["Name"] is not None:
                    self.topics[topic["TopicId"]] = topic["Name"]
        elif any(active.rule.select.fields for active in self.rules.values()):
            schema = api.request if frame.message == "request" else api.response
            self._add_names(schema.fields, frame.body)

    def _add_names(self, fields: Sequence[Field], body: Message) -> None:
        name = self.topics.get(body.get("TopicId", b""))
        for each in fields:
            if each.entity == "topicName" and name is not None:
                body.setdefault(each.name, name)
            elif each.is_struct and (value := body.get(each.name)):
                for element in value if each.is_array else (value,):
                    self._add_names(each.fields, element)

    # Rules

    def first_rule(self, frame: Frame) -> ActiveRule | None:
        """Return the first rule that acts on a message, or None."""
        return next((active for active in self.rules.values() if active.acts_on(frame)), None)

    def passed(self, frame: Frame) -> None:
        """Deliver the messages that change places with this one, which has passed."""
        for active in self.rules.values():
            if active.swaps and active.rule.select.matches(frame):
                for kept in list(active.kept):
                    if not kept.released and kept.frame is not frame:
                        self.release(kept, f"after {frame.api} {frame.correlation} had passed")

    def set_timer(self, kept: Kept) -> None:
        """Release a message after a time, if its rule says no more than that."""
        release = kept.rule.rule.release
        if release.after_s is not None and not release.after:
            in_time = not kept.rule.swaps
            self.later(
                release.after_s, lambda: self.release(kept, f"after {release.after_s:g} s", in_time=in_time)
            )

    def release(self, kept: Kept, reason: str, *, in_time: bool = True) -> None:
        """Deliver a kept message, unless that was done. `in_time`: its release has come."""
        if kept.released or kept.done:
            return
        kept.released, kept.in_time = True, in_time
        kept.rule.missed += not in_time
        kept.rule.note("released", kept.request, kept.words_of_release(reason), reason)
        kept.deliver(kept)

    def release_due(self, frame: Frame) -> list[Kept]:
        """Release what is due because of a message. Return those of which the message must wait for the answer."""
        due = [kept for active in self.rules.values() for kept in active.observe(frame)]
        seen = f"{frame.api} {frame.message} {frame.correlation} was seen"
        waits_for = []
        for kept in due:
            if (after_s := kept.rule.rule.release.after_s) is not None:
                self.later(after_s, partial(self.release, kept, f"{after_s:g} s after {seen}"))
            else:
                self.release(kept, f"when {seen}")
                waits_for.append(kept)
        return [kept for kept in waits_for if not kept.done]

    def answer(self, request: ProxyRequest) -> RuleStatus | ObservedClients | UndecodedMessages:
        """Carry out a message of the run."""
        if request.clients is not None:
            return self.observed_clients(request.clients)
        return self.undecoded if request.undecoded else self.answer_about_rule(request)

    def answer_about_rule(self, request: ProxyRequest) -> RuleStatus:
        """Carry out a message about a rule."""
        if request.add is not None:
            self.rules[request.add.name] = ActiveRule(request.add, self.journal, self._seen(request.add))
            self._choose_decoded()
        order = request.release
        own = request.add.name if request.add else order.rule if order else None
        name = own or request.remove or request.status
        active = self.rules.get(name or "")
        if active is None:
            return RuleStatus(error=f"there is no rule {name}")
        if order is not None:
            for kept in list(active.kept):
                if kept.request.number == order.number:
                    self.release(kept, order.reason, in_time=order.in_time)
        if request.remove is not None:
            active.healed = True
            for kept in list(active.kept):
                self.release(kept, f"at the heal{kept.missed}", in_time=not kept.missed)
            if not active.kept:
                del self.rules[active.rule.name]
                self._choose_decoded()
        return RuleStatus(
            matched=active.matched,
            acted=active.acted,
            proved=active.proved,
            kept=len(active.kept),
            missed=active.missed,
            seen=self._seen(active.rule) - active.seen_before,
            seen_before=active.seen_before,
            await_states=_held_until_a_state(active),
            words=tuple(event.words for event in active.events),
        )

    def _seen(self, rule: ProtocolRule) -> int:
        """Return how many requests of the APIs of a rule have been seen on its links."""
        return sum(
            count
            for (link, api), count in self.seen.items()
            if api in rule.select.apis and (not rule.links or link in rule.links)
        )

    def _choose_decoded(self) -> None:
        named = (api for active in self.rules.values() for api in active.apis)
        self.decoded_requests = self._keys(*ALWAYS_DECODED, *named)
        self.decoded_responses = self.decoded_requests | self._keys(*RESPONSES_DECODED)

    def _keys(self, *apis: str) -> frozenset[int]:
        return frozenset(self.schemas.api(name).key for name in apis if name in self.schemas.names)


def _held_until_a_state(active: ActiveRule) -> tuple[HeldRequest, ...]:
    if not active.rule.release.states:
        return ()
    return tuple(
        HeldRequest(kept.request.number, transactional_id)
        for kept in active.kept
        for transactional_id in kept.frame.transactional_ids[:1]
        if not kept.released
    )
