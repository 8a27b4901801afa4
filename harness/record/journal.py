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
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

import orjson

from harness.common.errors import EnvironmentFailure
from harness.record.events import Event, JournalBegan, JournalEnded


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
