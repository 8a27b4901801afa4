"""Drawings as inline SVG, made with ElementTree, which escapes all text.

Colours come from CSS classes, so that the style sheet can adapt them to dark mode. A drawing has no inline style,
because the report's content security policy would block it. Lengths are pixels.
"""

import math
from collections.abc import Sequence
from xml.etree import ElementTree

from markupsafe import Markup

from harness.results.wording import printable

Element = ElementTree.Element


class Drawing:
    """An SVG with a title and a description for screen readers."""

    def __init__(self, ident: str, width: int, title: str, description: str, kind: str = "") -> None:
        self.ident, self.width = ident, width
        labels = f"{ident}-title {ident}-desc"
        self.root = Element(
            "svg", {"role": "img", "aria-labelledby": labels, "class": f"drawing {kind}".strip()}
        )
        for tag, text in (("title", title), ("desc", description)):
            ElementTree.SubElement(self.root, tag, {"id": f"{ident}-{tag}"}).text = printable(text, 2000)

    def markup(self, height: float) -> Markup:
        """Return the drawing for a template. `height` is passed last, because it is known only when all is drawn."""
        self.root.set("viewBox", f"0 0 {self.width} {height:g}")
        self.root.set("width", str(self.width))
        self.root.set("height", f"{height:g}")
        return Markup(ElementTree.tostring(self.root, encoding="unicode"))  # safe: ElementTree has escaped it

    def rect(self, x: float, y: float, width: float, height: float, *, kind: str, hint: str = "") -> Element:
        """Add a rectangle, at least wide enough to be visible. `hint` is its tooltip."""
        values = {"x": x, "y": y, "width": max(width, 0.8), "height": max(height, 0.0)}
        return self._add(
            "rect", {name: f"{value:.1f}" for name, value in values.items()} | {"class": kind}, hint
        )

    def line(self, x1: float, y1: float, x2: float, y2: float, kind: str) -> None:
        """Add a straight line."""
        values = {"x1": x1, "y1": y1, "x2": x2, "y2": y2}
        self._add("line", {name: f"{value:.1f}" for name, value in values.items()} | {"class": kind})

    def path(
        self, points: Sequence[tuple[float, float] | None], kind: str, base: float | None = None
    ) -> None:
        """Add a line through the points, broken at each None. With `base`, fill the area down to that height."""
        runs: list[list[tuple[float, float]]] = [[]]
        for point in points:
            if point is None:
                runs.append([])
            else:
                runs[-1].append(point)
        commands = []
        for run in filter(None, runs):
            commands.append("M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in run))
            if base is not None:
                commands.append(f"L{run[-1][0]:.1f} {base:.1f}L{run[0][0]:.1f} {base:.1f}Z")
            elif len(run) == 1:
                commands.append("h0.1")  # a point between two gaps is visible through its round cap
        if commands:
            self._add("path", {"d": "".join(commands), "class": kind})

    def text(
        self, x: float, y: float, text: str, *, kind: str = "", anchor: str = "start", most: int = 60
    ) -> None:
        """Add a line of text."""
        attributes = {"x": f"{x:.1f}", "y": f"{y:.1f}", "class": kind, "text-anchor": anchor}
        ElementTree.SubElement(self.root, "text", attributes).text = printable(text, most)

    def _add(self, tag: str, attributes: dict[str, str], hint: str = "") -> Element:
        element = ElementTree.SubElement(self.root, tag, attributes)
        if hint:
            ElementTree.SubElement(element, "title").text = printable(hint, 300)
        return element


def ticks(low: float, high: float, most: int) -> list[float]:
    """Return round numbers from low to high, at most about `most` of them."""
    span = high - low
    if span <= 0 or not math.isfinite(span):
        return [low]
    raw = span / most
    scale = 10.0 ** math.floor(math.log10(raw))
    step = next(scale * factor for factor in (1, 2, 5, 10) if scale * factor >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [round(step * n, 9) for n in range(first, math.floor(high / step + 1e-9) + 1)]


def time_axis(drawing: Drawing, left: float, right: float, y: float, span: tuple[float, float]) -> None:
    """Draw ticks in seconds since the run began, along the line at `y`."""
    low, high = span
    drawing.line(left, y, right, y, "axis")
    per_s = (right - left) / ((high - low) or 1)
    marks = ticks(low, high, max(3, int((right - left) / 62)))
    step = marks[1] - marks[0] if len(marks) > 1 else 1.0
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    for mark in marks:
        x = left + (mark - low) * per_s
        drawing.line(x, y, x, y + 4, "axis")
        drawing.text(x, y + 16, f"{mark:,.{decimals}f} s", kind="tick", anchor="middle")
