"""Panes of curves."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Line:
    """A curve of a pane: one value for each point; None: there is none."""

    name: str
    style: str  # the name of its colour in the style sheet
    values: Sequence[float | None]

    def as_json(self) -> dict[str, object]:
        """Return the curve as JSON."""
        return {"name": self.name, "style": self.style, "values": self.values}


@dataclass(frozen=True)
class Pane:
    """Curves over the same points in time."""

    name: str
    unit: str  # of the values: "/s", "ms", "records", "offsets"
    at_s: Sequence[float]
    lines: Sequence[Line]
    log_scale: bool = False
    steps: bool = True  # a value holds until the next point

    def as_json(self) -> dict[str, object]:
        """Return the pane as JSON."""
        return {
            "name": self.name,
            "unit": self.unit,
            "log": self.log_scale,
            "steps": self.steps,
            "at": self.at_s,
            "lines": [line.as_json() for line in self.lines],
        }
