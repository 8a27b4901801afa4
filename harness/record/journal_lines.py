"""Reading a journal back: its events, and what of it is torn or missing."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from harness.record.event_forms import MOST
from harness.record.events import Ack, Event, Invoked, JournalBegan, NotAnEvent, parse


@dataclass
class OpenOperation:
    """An operation without a completion so far."""

    invoked: Invoked
    call_ns: int
    line: int
    acks: Sequence[Ack | None] = ()
    commit_ns: int | None = None


@dataclass(frozen=True)
class JournalLine:
    """One event, and where it stands: the line's number from 1, and its time."""

    number: int
    time_ns: int
    event: Event


@dataclass
class JournalContents:
    """What has been read of one journal."""

    name: str
    first_op: int
    head: JournalBegan | None = None
    lines: int = 0
    torn: int = 0
    missing: int = 0
    rows: int = 0  # of the table ops
    sends: int = 0  # of the table sends
    claims: int = 0  # of the table claims
    highest: int = -1
    ended: bool = False
    transactional_id: str | None = None
    open: dict[int, OpenOperation] = field(default_factory=dict)

    @property
    def role(self) -> str:
        """What it was there for; a journal whose first line is torn is nobody's."""
        return self.head.role if self.head else "unknown"

    @property
    def stage(self) -> str | None:
        """Whose worker it was."""
        return self.head.stage if self.head else None


def lines(path: Path, read: JournalContents) -> Iterator[JournalLine]:
    """The events of a journal; counts the lines that are torn or missing, or stand where they cannot."""
    index = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            read.lines = number
            if not line.endswith(b"\n"):
                read.torn += 1
                return
            try:
                body = orjson.loads(line)
                found, time_ns = int(body["index"]), int(body["time"])
                if not 0 <= time_ns < MOST:
                    raise NotAnEvent("nothing happens at that time")
                event = parse(body)
            except (orjson.JSONDecodeError, NotAnEvent, KeyError, TypeError, ValueError):
                read.missing += 1
                index += 1
                continue
            if found < index:  # said already, or out of its place: nothing of it counts twice
                read.missing += 1
                continue
            read.missing += found - index
            index = found + 1
            yield JournalLine(number, time_ns, event)
