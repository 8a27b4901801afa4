"""The values of a comparison: a figure of each side, in numbers and in words."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from harness.common import wording as words

NOT_KNOWN = "not known"
PER_SECOND, MILLISECONDS, SECONDS, COUNT = "per second", "ms", "s", "count"
_IN_WORDS: Mapping[str, tuple[Callable[[float], str], str]] = {
    PER_SECOND: (words.number, " per second"),
    MILLISECONDS: (words.milliseconds, ""),
    SECONDS: (words.number, " s"),
    COUNT: (words.number, ""),
}
"""By unit: a function that returns a value in words, and what follows these words."""


@dataclass(frozen=True)
class ValueRange:
    """A figure of one side: its median over the runs in which it is known, and the smallest and largest value."""

    median: float
    low: float
    high: float
    known: int  # runs in which the figure is known
    runs: int  # all runs of the side

    @classmethod
    def of(cls, values: Sequence[float | None]) -> "ValueRange | None":
        """Return the range of the values that are not None. None: there are no such values."""
        known = [value for value in values if value is not None]
        if not known:
            return None
        return cls(statistics.median(known), min(known), max(known), len(known), len(values))

    def text(self, unit: str) -> str:
        """Return for example `12 ms (10 ms to 15 ms; 4 of 5 runs)`. For a single run: `12 ms`."""
        show, unit_text = _IN_WORDS[unit]
        notes = [f"{show(self.low)} to {show(self.high)}"] if self.known > 1 else []
        notes += [f"{self.known} of {self.runs} runs"] if self.known < self.runs else []
        return show(self.median) + unit_text + (f" ({'; '.join(notes)})" if notes else "")


@dataclass(frozen=True)
class ComparedRow:
    """A row of a table: its name, and the values of A and B in words. A row of figures has them as numbers too."""

    name: str
    a: str
    b: str
    numbers: tuple[ValueRange | None, ValueRange | None] | None = None
    unit: str = COUNT

    @property
    def ratio(self) -> float | None:
        """The median of B divided by the median of A. None: one is not known, or 0, or both are counts."""
        if self.numbers is None or self.unit == COUNT:
            return None
        a, b = self.numbers
        return b.median / a.median if a and b and a.median and b.median else None

    def as_json(self) -> dict[str, Any]:
        """Return the row for `--json`. A number that is not known is null."""
        if self.numbers is None:
            return {"name": self.name, "a": self.a, "b": self.b}
        a, b = (None if number is None else asdict(number) for number in self.numbers)
        return {"name": self.name, "unit": self.unit, "a": a, "b": b, "ratio": self.ratio}


@dataclass(frozen=True)
class ComparedTable:
    """A table with a title."""

    title: str
    rows: Sequence[ComparedRow]

    def as_json(self) -> dict[str, Any]:
        """Return the table for `--json`."""
        return {"title": self.title, "rows": [row.as_json() for row in self.rows]}


def figure_row(
    name: str,
    unit: str,
    a: Sequence[float | None],
    b: Sequence[float | None],
    missing: tuple[str, str] = (NOT_KNOWN, NOT_KNOWN),
) -> ComparedRow:
    """Return the row of a figure.

    Args:
        name: the figure, in words
        unit: its unit
        a: its value in each run of A. None: not known
        b: the same for B
        missing: the words for A and B if no run has a value
    """
    numbers = ValueRange.of(a), ValueRange.of(b)
    texts = [number.text(unit) if number else text for number, text in zip(numbers, missing, strict=True)]
    return ComparedRow(name, texts[0], texts[1], numbers, unit)
