"""Journals: each process writes its own, and what it had written survives whatever kills it.

A journal is a file of JSON lines. Each event is one `write(2)` of one whole line, so that a
killed process leaves at most one torn line, the last, and nothing that it had said is lost. Lines
are numbered (`index`), so that a line that was taken away later is missed.

The invocation of anything that may take effect is written before the act, the completion after.
A read has no effect: only its completion is written, and it bears the time of its call.

    {"index":0,"time":5,"type":"begin","journal":"shop-1.0","role":"worker",...}
    {"index":1,"time":9,"type":"ok","f":"poll","process":1,"op":0,"call":6,"records":{"in/0":[[7,"f.0:3:1"]]}}
    {"index":2,"time":9,"type":"invoke","f":"txn","process":1,"op":1,"asked":"commit",
     "sends":[["out","invoice",123,"in/0",7]],"claims":{"in/0":[7,8]}}
    {"index":3,"time":12,"type":"commit","op":1,"acks":[[2,41]]}
    {"index":4,"time":15,"type":"ok","f":"txn","process":1,"op":1}

`sends` holds topic, output name, digest, then a partition and an offset for each input. The n-th send of
operation 1 bears the value `shop-1.0:1:n`. `acks` holds by n partition and
offset, or null; the offset is null where the broker no longer knew it.
`harness.record.events` has every kind of line.
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
    """The journal of one process; `zero_ns` is the monotonic clock at the start of the run."""

    def __init__(self, path: Path, zero_ns: int, begun: JournalBegan) -> None:
        self.name = begun.journal
        self.ops = 0
        self._zero_ns = zero_ns
        self._index = 0
        self._lock = threading.Lock()  # a thread beside the worker writes as well
        self._fd: int | None = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
        self.write(replace(begun, pid=os.getpid()))

    def now_ns(self) -> int:
        """Nanoseconds since the run began."""
        return time.monotonic_ns() - self._zero_ns

    def write(self, event: Event) -> int:
        """Append one event, and return its time. Raises `EnvironmentFailure` once the journal is closed."""
        with self._lock:
            if self._fd is None:
                raise EnvironmentFailure(f"journal {self.name} is closed: its process gave up")
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
        """The next operation's number."""
        op = self.ops
        self.ops += 1
        return op

    def close(self) -> None:
        """Say that the process has come to its end, and close."""
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
        with self._lock:  # a thread that outlives it must not write into whatever gets its number next
            if self._fd is not None:
                os.close(self._fd)
            self._fd = None


class NoJournal(Journal):
    """Records nothing: the other side of the benchmark of what recording costs."""

    def __init__(self, name: str = "none") -> None:
        self.name = name
        self.ops = 0
        self._zero_ns = 0
        self._index = 0

    def write(self, event: Event) -> int:
        """Say the time, and keep nothing."""
        return self.now_ns()

    def close(self) -> None:
        """Nothing is open."""

    def _shut(self) -> None:
        """Nothing is open."""
