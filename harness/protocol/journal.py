"""The journal of the protocol proxy: one line of JSON for each request, and one for each thing that a rule did.

It is the evidence that a rule acted. It never holds the body of a message: names, versions, times and error codes only.
All times are nanoseconds on the monotonic clock of this machine.
"""

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

FLUSH_BYTES = 64 * 1024


@dataclass
class RequestRecord:
    """One request on its way, and its response."""

    number: int  # in this proxy, from 1
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
    delivered_ns: int | None = None  # when it was sent to the broker; None: it was not
    answered_ns: int | None = None  # when the broker's response came; None: none came
    returned_ns: int | None = None  # when a response was sent to the client; None: the client got none
    errors: tuple[str, ...] = ()
    rule: str | None = None  # the rule that acted on it
    copy_of: int | None = None  # the number of the request of which it is a duplicate

    def __str__(self) -> str:
        """Describe it: `EndTxn of shop-1, correlation 41`."""
        names = ", ".join(self.transactional_ids or self.groups or filter(None, (self.client_id,)))
        return f"{self.api}{f' of {names}' if names else ''}, correlation {self.correlation}"


@dataclass(frozen=True)
class RuleEvent:
    """One thing that a rule did: `held`, `released`, `answered`, `dropped`, ..."""

    rule: str
    event: str
    at_ns: int
    request: int
    words: str  # in words, for proofs and reports


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

    def write_event(self, event: RuleEvent) -> None:
        """Write what a rule did, at once."""
        self._add(orjson.dumps({"event": event}))
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
