"""Writes the journal of the protocol proxy, which is the evidence that a rule acted."""

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from harness.record.protocol_journal import RequestRecord, RuleEvent

FLUSH_BYTES = 64 * 1024


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
