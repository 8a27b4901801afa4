"""Journals: each process writes one journal, and its events survive if the process is killed.

A journal is a file of JSON lines. Each event is one `write(2)` of one complete line. If the process is killed, at most
the last line is torn, and no earlier event is lost. Lines are numbered (`index`), so that a missing line is noticed.

The invocation of an operation that may take effect is written before the operation, and the completion after it. A poll
has no effect, so only its completion is written, with the time of the call.

    {"index":0,"time":5,"type":"begin","journal":"shop-1.0","role":"worker",...}
    {"index":1,"time":9,"type":"ok","f":"poll","process":1,"op":0,"call":6,"records":{"in/0":[[7,"f.0:3:1"]]}}
    {"index":2,"time":9,"type":"invoke","f":"txn","process":1,"op":1,"asked":"commit",
     "sends":[["out","invoice",123,"in/0",7]],"claims":{"in/0":[7,8]}}
    {"index":3,"time":12,"type":"commit","op":1,"acks":[[2,41]]}
    {"index":4,"time":15,"type":"ok","f":"txn","process":1,"op":1}

A send in `sends` has a topic, an output name and a digest; then a partition and an offset for each input. The attempt
name of the n-th send of operation 1 is `shop-1.0:1:n`. The n-th entry of `acks` is its partition and offset, or null.
The offset is null if the broker no longer knew it. `harness.record.events` defines all kinds of lines.
"""

import os
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Self

import orjson

from harness.common.errors import EnvironmentFailure
from harness.record.events import MOST, Ack, Event, Invoked, JournalBegan, JournalEnded, NotAnEvent, parse


class Journal:
    """The journal of one process. `zero_ns` is the time of the monotonic clock at the start of the run."""

    def __init__(self, path: Path, zero_ns: int, head: JournalBegan) -> None:
        self.name = head.journal
        self.ops = 0
        self._zero_ns = zero_ns
        self._index = 0
        self._lock = threading.Lock()  # another thread of the process also writes
        self._fd: int | None = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
        self.write(replace(head, pid=os.getpid()))

    def now_ns(self) -> int:
        """Return the nanoseconds since the start of the run."""
        return time.monotonic_ns() - self._zero_ns

    def write(self, event: Event) -> int:
        """Append an event and return its time. Raises `EnvironmentFailure` if the journal is closed."""
        with self._lock:
            if self._fd is None:
                raise EnvironmentFailure(f"journal {self.name} is closed, because its process is ending")
            now_ns = self.now_ns()
            line = orjson.dumps(
                {"index": self._index, "time": now_ns, **event.body()}, option=orjson.OPT_APPEND_NEWLINE
            )
            self._index += 1
            written = os.write(self._fd, line)
        if written != len(line):
            raise OSError(f"journal {self.name}: {written} of {len(line)} bytes written; is the disk full?")
        return now_ns

    def number(self) -> int:
        """Return the number for the next operation."""
        op = self.ops
        self.ops += 1
        return op

    def close(self) -> None:
        """Write the end event and close the file."""
        self.write(JournalEnded(self.ops))
        self._shut()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self._shut()

    def _shut(self) -> None:
        # The lock is needed, because another thread must not write to a later file with the same descriptor.
        with self._lock:
            if self._fd is not None:
                os.close(self._fd)
            self._fd = None


class NoJournal(Journal):
    """A journal that records nothing. A benchmark uses it to measure the cost of recording."""

    def __init__(self, name: str = "none") -> None:
        self.name = name
        self.ops = 0
        self._zero_ns = 0
        self._index = 0

    def write(self, event: Event) -> int:
        """Return the time, without writing anything."""
        return self.now_ns()

    def close(self) -> None:
        pass

    def _shut(self) -> None:
        pass


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
