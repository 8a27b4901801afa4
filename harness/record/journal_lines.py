"""Reads the events of a journal, and counts torn and missing lines."""

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
    """One event, with the number of its line (from 1) and its time."""

    number: int
    time_ns: int
    event: Event


@dataclass
class JournalContents:
    """The state of a journal that is being read."""

    name: str
    first_op: int  # the number, within the run, of its first operation
    head: JournalBegan | None = None
    lines: int = 0
    torn: int = 0
    missing: int = 0
    rows: int = 0  # number of rows in the table `ops`
    sends: int = 0  # number of rows in the table `sends`
    claims: int = 0  # number of rows in the table `claims`
    polls: int = 0  # number of rows in the table `polls`
    assignments: int = 0  # number of rows in the table `assignments`
    highest: int = -1  # the highest operation number so far
    ended: bool = False
    transactional_id: str | None = None
    open: dict[int, OpenOperation] = field(default_factory=dict)

    @property
    def role(self) -> str:
        """The role of the process; "unknown" if the first line is torn."""
        return self.head.role if self.head else "unknown"

    @property
    def stage(self) -> str | None:
        """The stage of a worker; None: it is not a worker."""
        return self.head.stage if self.head else None


def read_events(path: Path, contents: JournalContents) -> Iterator[JournalLine]:
    """Yield the events of a journal. Count in `contents` the lines that are torn, missing or out of order."""
    index = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            contents.lines = number
            if not line.endswith(b"\n"):
                contents.torn += 1
                return
            try:
                body = orjson.loads(line)
                line_index, time_ns = int(body["index"]), int(body["time"])
                if not 0 <= time_ns < MOST:
                    raise NotAnEvent("the time is out of range")
                event = parse(body)
            except (orjson.JSONDecodeError, NotAnEvent, KeyError, TypeError, ValueError):
                contents.missing += 1
                index += 1
                continue
            if line_index < index:  # the line is repeated or out of order, and must not count twice
                contents.missing += 1
                continue
            contents.missing += line_index - index
            index = line_index + 1
            yield JournalLine(number, time_ns, event)
