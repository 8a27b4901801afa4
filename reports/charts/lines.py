"""Lines over transaction sizes. Both axes are logarithmic. Each line has a name and each point a range."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from harness.results.wording import number
from reports.charts.svg import Drawing

HEIGHT, TOP, BOTTOM = 240, 30, 46
NAME_ROOM = 15
"""The smallest distance between two names, in pixels."""


@dataclass(frozen=True)
class Dot:
    """A measured value at a transaction size, with the smallest and largest value of the rounds."""

    x: float
    y: float
    low: float
    high: float


@dataclass(frozen=True)
class ChartSeries:
    """A named line. `kind` is its class in the style sheet; `dots` are ordered from left to right."""

    name: str
    kind: str
    dots: Sequence[Dot]


def lines(ident: str, width: int, title: str, unit: str, series: Sequence[ChartSeries]) -> Markup | None:
    """Return the drawing; None if there are no dots."""
    dots = [dot for line in series for dot in line.dots]
    if not dots:
        return None
    drawing = Drawing(ident, width, title, _description(series, unit), "lines")
    left, right = 62.0, width - (150.0 if width >= 600 else 108.0)
    x = _scale([dot.x for dot in dots], left + 12, right - 12)
    low, high = _decades([value for dot in dots for value in (dot.low, dot.high)])
    y = _scale([low, high], HEIGHT - BOTTOM, TOP)
    for mark in _marks(low, high):
        drawing.line(left, y(mark), right, y(mark), "grid")
        drawing.text(left - 8, y(mark) + 4, number(mark), kind="tick", anchor="end")
    drawing.text(left - 8, 12, unit, kind="tick")
    drawing.line(left, HEIGHT - BOTTOM, right, HEIGHT - BOTTOM, "axis")
    for size in sorted({dot.x for dot in dots}):
        drawing.line(x(size), HEIGHT - BOTTOM, x(size), HEIGHT - BOTTOM + 4, "axis")
        drawing.text(x(size), HEIGHT - BOTTOM + 17, number(size), kind="tick", anchor="middle")
    drawing.text((left + right) / 2, HEIGHT - 8, "inputs per transaction", kind="tick", anchor="middle")
    ends = []
    for line in series:
        if not line.dots:
            continue
        drawing.path([(x(dot.x), y(dot.y)) for dot in line.dots], f"curve {line.kind}")
        for dot in line.dots:
            drawing.line(x(dot.x), y(dot.low), x(dot.x), y(dot.high), f"spread {line.kind}")
            hint = f"{line.name}, {number(dot.x)}: {number(dot.y)} ({number(dot.low)} to {number(dot.high)}) {unit}"
            drawing.rect(x(dot.x) - 2.5, y(dot.y) - 2.5, 5, 5, kind=f"dot {line.kind}", hint=hint)
        last = line.dots[-1]
        ends.append((y(last.y), x(last.x), line))
    for at, (_, end, line) in _apart(sorted(ends, key=lambda entry: entry[0])):
        drawing.text(end + 8, at + 4, line.name, kind=f"line-name {line.kind}")
    return drawing.markup(HEIGHT)


def _scale(values: Sequence[float], first: float, last: float) -> Callable[[float], float]:
    """Return a function from values to positions. A single value is placed in the middle."""
    low, high = math.log10(min(values)), math.log10(max(values))
    span = (high - low) or 1.0
    middle = high == low

    def scale(value: float) -> float:
        share = 0.5 if middle else (math.log10(value) - low) / span
        return first + share * (last - first)

    return scale


def _decades(values: Sequence[float]) -> tuple[float, float]:
    """Return the marks below the smallest and above the largest value."""
    smallest, largest = min(values), max(values)
    marks = [factor * 10.0**power for power in range(-9, 13) for factor in (1, 2, 5)]
    return max(mark for mark in marks if mark <= smallest), min(
        mark for mark in marks if mark >= largest and mark > smallest
    )


def _marks(low: float, high: float) -> list[float]:
    """Return the powers of ten from low to high. For short ranges also return twice and five times these."""
    factors = (1, 2, 5) if high / low <= 200 else (1,)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    marks = [factor * 10.0**power for power in powers for factor in factors]
    return [mark for mark in marks if low * 0.999 <= mark <= high * 1.001]


def _apart(
    ends: list[tuple[float, float, ChartSeries]],
) -> list[tuple[float, tuple[float, float, ChartSeries]]]:
    """Return the vertical positions of the names: at the end of the line, or lower if the name above is too close."""
    positions: list[tuple[float, tuple[float, float, ChartSeries]]] = []
    for end in ends:
        at = end[0] if not positions else max(end[0], positions[-1][0] + NAME_ROOM)
        positions.append((at, end))
    return positions


def _description(series: Sequence[ChartSeries], unit: str) -> str:
    return (
        "; ".join(
            f"{line.name}: " + ", ".join(f"{number(dot.y)} at {number(dot.x)}" for dot in line.dots)
            for line in series
        )
        + f" ({unit}, by inputs per transaction)"
    )
