"""Reading a journal back: its whole lines, and what of it is torn or missing."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson


@dataclass
class Journaled:
    """What has been read of one journal."""

    name: str
    first_op: int
    head: dict[str, Any] = field(default_factory=dict)
    lines: int = 0
    torn: int = 0
    missing: int = 0
    rows: int = 0  # of the table ops
    highest: int = -1
    ended: bool = False
    transactional_id: str | None = None
    open: dict[int, dict[str, Any]] = field(default_factory=dict)

    @property
    def role(self) -> str:
        """What it was there for; a journal whose first line is torn is nobody's."""
        return str(self.head.get("role", "unknown"))


def events(path: Path, read: Journaled) -> Iterator[tuple[int, dict[str, Any]]]:
    """The whole lines of a journal, numbered from 1; counts those that are torn or missing."""
    index = 0
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            read.lines = number
            if not line.endswith(b"\n"):
                read.torn += 1
                return
            try:
                event = orjson.loads(line)
                found = int(event["index"])
            except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
                read.missing += 1
                index += 1
                continue
            read.missing += max(0, found - index)
            index = found + 1
            yield number, event
