"""What the story of a run consists of: spans, points, and messages from one actor to another.

Times are nanoseconds since the start of the run (`_ns`). None: the time is not known. An actor is a process
(`shop-1.0`), a partition (`log of invoices/2`), a coordinator, a group, a reader, or a fault.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any

from harness.common.wording import redact_text
from harness.record.timeline.load import UNNAMED, Ending, Notes

__all__ = [
    "EVERYBODY",
    "TICK_NS",
    "UNNAMED",
    "Ending",
    "Kind",
    "Message",
    "Notes",
    "Point",
    "Span",
    "in_order",
]

EVERYBODY = "everybody"
"""The actor of what concerns the whole run, such as a fault of the cluster."""
TICK_NS = 2_000_000
"""Brokers and clients write times in whole milliseconds, so times that differ by less may be in either order."""


class Kind(StrEnum):
    """What happened."""

    INPUT = "input"
    BEGIN = "begin"
    RECORD = "record"
    OFFSETS = "offsets"
    COMMIT = "commit"  # the request to commit or to abort
    STATE = "state"  # of a transaction, in the transaction log
    MARKER = "marker"
    OPEN = "open"
    END = "end"
    REQUEST = "request"  # a request that a rule changed, or the client's retry of it
    ACTED = "acted"  # a rule acted on a request
    DELIVERED = "delivered"  # to the broker
    ANSWERED = "answered"
    READ = "read"
    UNREAD = "unread"
    ASSIGNMENT = "assignment"  # of partitions to a member of a group
    FAULT = "fault"
    HEAL = "heal"
    LIFE = "life"  # a process is up
    DEATH = "death"  # a process was killed or ended
    PHASE = "phase"
    LEADER = "leader"
    COORDINATOR = "coordinator"


@dataclass(frozen=True)
class Point:
    """Something that happened at one time."""

    at_ns: int | None
    actor: str
    words: str
    source: str  # the table or file that shows it
    kind: Kind
    content: str | None = None  # of the record; None: it is not about one, or its content is not stored
    inferred: bool = False  # no evidence names it: it follows from other evidence
    adjusted: bool = (
        False  # its time stamp contradicts other evidence, and `at_ns` is the nearest possible time
    )

    @property
    def sentence(self) -> str:
        """What happened, without secrets, and the content of the record as it is."""
        words = redact_text(self.words) + (" (time adjusted)" if self.adjusted else "")
        return words if self.content is None else f"{words}, and holds {self.content}"

    def as_json(self) -> dict[str, Any]:
        """Return the object that `fencepost trace --json` prints."""
        return {"time_ns": self.at_ns, "who": self.actor, "what": self.sentence, "source": self.source}


@dataclass(frozen=True)
class Span:
    """Something that lasted."""

    from_ns: int
    to_ns: int | None  # None: it has no end, or the end is not known
    actor: str
    words: str
    source: str
    kind: Kind
    subject: str = (
        ""  # a further name of it: the group of a member, the topic of a leader, the error of a death
    )
    inferred: bool = False
    points: Sequence[Point] = ()  # what happened to it meanwhile
    ids: tuple[str, ...] = ()  # its transactional ids
    facts: Mapping[str, object] = field(default_factory=dict)  # more about it, by name


@dataclass(frozen=True)
class Message:
    """A message from one actor to another, or a note if both are the same. A fault has `EVERYBODY` as both."""

    at_ns: int | None
    sender: str
    receiver: str
    text: str
    kind: Kind
    bad: bool = False  # it should not have happened
    inferred: bool = False
    adjusted: bool = False
    source: str = ""  # the table or file that shows it

    def __str__(self) -> str:
        """Return it in words: `shop-1.0 -> invoices/1: record @36`."""
        arrow = self.sender if self.sender == self.receiver else f"{self.sender} -> {self.receiver}"
        return f"{arrow}: {self.text}"


class Rank(IntEnum):
    """The place of a participant, from left to right."""

    INPUT = 0
    PROCESS = 1
    PROXY = 2
    COORDINATOR = 3
    GROUP = 4
    OUTPUT = 5
    READER = 6


@dataclass(frozen=True)
class Participant:
    """A lifeline."""

    name: str
    rank: Rank


@dataclass(frozen=True)
class Diagram:
    """The participants from left to right, and the messages in order of time."""

    participants: Sequence[Participant]
    messages: Sequence[Message]
    left_out: int = 0  # messages

    @property
    def interval_ns(self) -> tuple[int, int] | None:
        """The time from its first to its last message. None: no message has a time."""
        times_ns = [message.at_ns for message in self.messages if message.at_ns is not None]
        return (min(times_ns), max(times_ns)) if times_ns else None


def in_order(points: Iterable[Point]) -> list[Point]:
    """Sort points by time, each once. A point without a time stays after the point before it."""
    keyed: list[tuple[int, int, Point]] = []
    last_ns = 0
    for n, point in enumerate(dict.fromkeys(points)):
        last_ns = point.at_ns if point.at_ns is not None else last_ns
        keyed.append((last_ns, n, point))
    return [point for _, _, point in sorted(keyed, key=lambda entry: entry[:2])]
