"""The rules that are in force: which messages they act on, and which kept messages are due."""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from harness.protocol.frames import FrameSplitter
from harness.protocol.rules import Action, Frame, ProtocolRule
from harness.record.protocol_journal import ProxyJournal, RequestRecord, RuleEvent, now_ns


@dataclass(eq=False)
class Kept:
    """A message that a rule keeps until its release."""

    rule: "ActiveRule"
    request: RequestRecord
    frame: Frame
    deliver: Callable[["Kept"], None]  # delivers the message; called once
    steps: int = 0  # how many messages of `release.after` were seen
    released: bool = False
    done: bool = False  # it was answered, or can no longer be
    took_effect: bool = False  # delivered and answered; delayed and delivered; a response: the client got it
    in_time: bool = False  # it was released as its rule says; False: by the heal, or of a swap by the time
    waiting: list["WaitingMessage"] = field(default_factory=list)

    def concerns(self, frame: Frame) -> bool:
        """Return whether a message is of the same transactional id or group. A message without either is."""
        own = self.frame.transactional_ids or self.frame.groups
        names = frame.transactional_ids if self.frame.transactional_ids else frame.groups
        return not own or bool(set(own) & set(names))

    @property
    def missed(self) -> str:
        """Why its release has not come, in words that follow "it was delivered at the heal". Empty: it has come."""
        release = self.rule.rule.release
        if self.steps < len(release.after):
            selector = release.after[self.steps]
            return f", because no {' or '.join(selector.apis)} {selector.message} was seen"
        if release.states:
            return f", because its transaction was not seen in {release.states[0]}"
        if self.rule.swaps:
            return ", because no other of its kind had passed"
        return f", because {release.after_s:g} s had not passed" if release.after_s is not None else ""

    def words_of_release(self, reason: str) -> str:
        """Say that it was delivered. The client of a response may have gone, and then the response proves nothing."""
        if self.frame.message == "request":
            return f"{self.request} was delivered {reason}"
        if self.request.client_gone_ns is not None:
            return f"{self.request}: its response was due {reason}, but its client had gone"
        return f"{self.request}: its response was returned {reason}"

    def finish(self) -> None:
        """Note that nothing more will come of it, and let the messages pass that waited for this."""
        if self.done:
            return
        self.done = True
        self.rule.kept.remove(self)
        if self.took_effect and self.in_time:
            self.rule.prove(self.request)
        for trigger in self.waiting:
            trigger.go_on()
        self.waiting.clear()


@dataclass(eq=False)
class WaitingMessage:
    """A message that waits, with everything behind it, until the requests that it released were answered."""

    splitter: FrameSplitter
    pass_message: Callable[[], None]
    waits_for: list[Kept]
    passed: bool = False

    def go_on(self) -> None:
        """Let it pass if all answers are here."""
        if all(kept.done for kept in self.waits_for):
            self.give_up()

    def give_up(self) -> None:
        """Let it pass, unless it has passed."""
        if not self.passed:
            self.passed = True
            self.pass_message()
            self.splitter.unblock()


@dataclass(eq=False)
class ActiveRule:
    """A rule in force, with what it has done."""

    rule: ProtocolRule
    journal: ProxyJournal
    seen_before: int = 0  # requests of its APIs on its links before it was in force
    matched: int = 0
    acted: int = 0
    missed: int = 0  # kept messages that were delivered although their release had not come
    healed: bool = False  # it acts on no further message
    events: list[RuleEvent] = field(default_factory=list)
    kept: list[Kept] = field(default_factory=list)  # the messages of which something may still come
    _proved: set[int] = field(default_factory=set)  # the numbers of requests

    def __post_init__(self) -> None:
        self._rng = Random(self.rule.seed)

    def acts_on(self, frame: Frame) -> bool:
        """Return whether the rule acts on this message, and count it.

        Except with `delay` and `holds_retries`, it does not act on a message of a transactional id or group of which it
        keeps one, because that is the client's retry.
        """
        rule = self.rule
        if self.healed or (rule.links and frame.link not in rule.links) or not rule.select.matches(frame):
            return False
        takes_all = rule.holds_retries or rule.action is Action.DELAY
        if not takes_all and any(kept.concerns(frame) for kept in self.kept):
            return False
        if rule.action is Action.ERROR and not frame.gets_response:
            return False
        self.matched += 1
        if self.matched < rule.nth or (rule.times is not None and self.acted >= rule.times):
            return False
        if rule.probability < 1.0 and self._rng.random() >= rule.probability:
            return False
        self.acted += 1
        return True

    def note(self, event: str, request: RequestRecord, words: str = "", reason: str = "") -> None:
        """Write to the journal what the rule did with a request, and the request as it is now."""
        request.rule = self.rule.name
        words = words or f"{request}: {event}"
        entry = RuleEvent(self.rule.name, event, now_ns(), request.number, words, reason)
        self.events.append(entry)
        self.journal.write_event(entry, request)

    def prove(self, request: RequestRecord) -> None:
        """Note that the rule is known to have had its effect on a request or on its response."""
        self._proved.add(request.number)

    def observe(self, frame: Frame) -> list[Kept]:
        """Take notice of a message that passes. Return the kept messages that are due because of it."""
        due = []
        for kept in self.kept:
            after = self.rule.release.after
            if kept.released or not after or kept.frame is frame or not kept.concerns(frame):
                continue
            if kept.steps < len(after) and after[kept.steps].matches(frame):
                kept.steps += 1
                if kept.steps == len(after):
                    due.append(kept)
        return due

    @property
    def proved(self) -> int:
        """The number of messages on which the rule is known to have had its effect.

        A message that was kept counts after its release has come and it was delivered, and a request that was not only
        delayed after the broker has answered it. A swap counts only if another message has passed before. A response
        that the rule made or changed counts after the client got it.
        """
        return len(self._proved)

    @property
    def keeps_words(self) -> str:
        """What it does with a message that it keeps: `held`, `delayed by 1 s`."""
        after_s = self.rule.release.after_s
        return f"delayed by {after_s:g} s" if self.rule.action is Action.DELAY else "held"

    @property
    def apis(self) -> frozenset[str]:
        """The APIs whose messages the rule must see."""
        return frozenset(
            api for select in (self.rule.select, *self.rule.release.after) for api in select.apis
        )

    @property
    def swaps(self) -> bool:
        """Whether it changes the order of messages."""
        return self.rule.action is Action.SWAP


@dataclass(eq=False)
class Outstanding:
    """A request on a connection whose response has not passed yet."""

    record: RequestRecord
    frame: Frame | None  # None: the request was not decoded
    key: int
    swallow: bool = False  # the client does not get its response
    change: Callable[[Frame], Frame] | None = None  # applied to its response
    after: Callable[[], None] | None = None  # called when its response has come
    on_end: Callable[[], None] | None = None  # called when the client has got a response, or never will
    ready: bytes | None = None  # a response that waits until those of earlier requests have passed
    kept: Kept | None = None

    def end(self) -> None:
        """Call `on_end`, once."""
        on_end, self.on_end = self.on_end, None
        if on_end is not None:
            on_end()
