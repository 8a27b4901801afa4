"""The journal lines that findings refer to, with their neighbours.

A browser cannot jump to a line of a file, so the report contains these lines, each with an anchor. Journals are
read as streams, and very long lines are cut.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote

from harness.common.wording import integer, printable
from harness.results.example import Operation

AROUND = 2
MOST_BETWEEN = 12
MOST_LINES = 1500
_MOST_POINTED_AT, _MOST_AROUND = 8_000, 500
"""The number of characters to show of a line to which a finding refers, and of a neighbour."""
_LINE_BYTES = 32 * 1024
"""The number of bytes to read of a line. It is larger than the number of characters that are shown, so that a cut is
always marked.
"""


@dataclass(frozen=True)
class ReportLine:
    """A line of a journal. `pointed_at` is true if a finding refers to the line, and false for a neighbour."""

    number: int
    text: str
    anchor: str
    pointed_at: bool
    after_gap: bool


@dataclass
class ReportJournal:
    """The lines of one journal that the report shows."""

    name: str
    href: str
    anchor: str
    wanted: set[int] = field(default_factory=set)
    pointed_at: set[int] = field(default_factory=set)
    lines: list[ReportLine] = field(default_factory=list)
    missing: str = ""


class Excerpts:
    """The lines that findings need, and their anchors in the report."""

    def __init__(self, folder: Path, operations: Iterable[Operation]) -> None:
        self.journals: dict[str, ReportJournal] = {}
        self._left = MOST_LINES
        for operation in operations:
            self._want(operation)
        for journal in self.journals.values():
            self._read(journal, folder / "journals" / f"{journal.name}.jsonl")
        self._anchors = {
            (name, line.number): line.anchor
            for name, journal in self.journals.items()
            for line in journal.lines
        }

    def link(self, operation: Operation, end: bool = False) -> str | None:
        """Return the anchor of an operation's first or last line. None: the line is not in the report."""
        name, number = operation.get("journal"), operation.get("end_line" if end else "line")
        anchor = (
            self._anchors.get((name, number)) if isinstance(name, str) and isinstance(number, int) else None
        )
        return f"#{anchor}" if anchor else None

    def _want(self, operation: Operation) -> None:
        name, first, last = (
            operation.get("journal"),
            integer(operation.get("line")),
            operation.get("end_line"),
        )
        if not isinstance(name, str) or first is None or first < 1 or not _is_file_name(name):
            return
        last = integer(last) or first
        number = len(self.journals) + 1
        journal = self.journals.setdefault(
            name, ReportJournal(name, f"journals/{quote(name)}.jsonl", f"journal-{number}")
        )
        journal.pointed_at.update((first, last))
        for line in (first, last):
            journal.wanted.update(range(max(1, line - AROUND), line + AROUND + 1))
        if 0 < last - first <= MOST_BETWEEN:
            journal.wanted.update(range(first, last))

    def _read(self, journal: ReportJournal, path: Path) -> None:
        try:
            with path.open("rb") as file:
                self._take(journal, file)
        except OSError as error:
            journal.missing = printable(f"journals/{path.name} cannot be read: {error.strerror}", 300)
            return
        absent = journal.pointed_at - {line.number for line in journal.lines}
        if absent:
            journal.missing = f"{len(absent)} of the lines that findings refer to are not shown"

    def _take(self, journal: ReportJournal, file: BinaryIO) -> None:
        last, number, previous = max(journal.wanted), 0, 0
        while number < last and self._left > 0:
            text = file.readline(_LINE_BYTES)
            if not text:
                return
            number += 1
            rest = text
            while not rest.endswith(b"\n") and (rest := file.readline(1 << 20)):
                pass
            if number not in journal.wanted:
                continue
            self._left -= 1
            max_characters = _MOST_POINTED_AT if number in journal.pointed_at else _MOST_AROUND
            shown = printable(text.rstrip(b"\n").decode("utf-8", "backslashreplace"), max_characters)
            anchor, gap = f"{journal.anchor}-line-{number}", number > previous + 1
            journal.lines.append(ReportLine(number, shown, anchor, number in journal.pointed_at, gap))
            previous = number


def _is_file_name(name: str) -> bool:
    """Return whether the name of a journal stays inside its folder."""
    return name not in ("", ".", "..") and not {"/", "\\", "\0"} & set(name) and len(name) <= 200
