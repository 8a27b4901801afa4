"""Static drawings, for readers without JavaScript: the run over time, its phases, and the bars of a finding.

They are inline SVG, made with ElementTree, which escapes all text. Colours come from CSS classes, so that the style
sheet can adapt them to dark mode. A drawing has no inline style, because the report's content security policy would
block it. Lengths are pixels.

The drawing over time has faults, requests that rules changed, throughput, commit latency, and how the transactions of
each stage ended. Every strip has its own scale, a name and a total, so that colour is never the only difference. Faults
are bands through all strips.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

from markupsafe import Markup

from harness.common.wording import integer, milliseconds, number, plural, printable, seconds
from harness.results.example import Example
from harness.results.run_metadata import RunPhase
from harness.results.verdict import FaultReport
from reports.series import Series
from reports.story.model import UNNAMED, Ending, Kind, Span

Element = ElementTree.Element
PANEL, STRIP, GAP, LANE = 96, 26, 34, 18
MOST_STAGES = 12
_KINDS = {
    Ending.COMMITTED: "ok",
    Ending.ABORTED_ON_PURPOSE: "abort",
    Ending.ABORTED: "abort",
    Ending.FAILED: "fail",
    Ending.UNKNOWN: "info",
    Ending.OPEN: "info",
}
ROW = 40
MOST_ROWS = 30
_OUTCOMES = {"ok": "ok", "fail": "fail", "info": "info"}


# SVG


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


# The run over time


@dataclass
class _Frame:
    """The drawing, its plot from `left` to `right`, and the current vertical position `y`."""

    drawing: Drawing
    left: float
    right: float
    begin_s: float
    end_s: float
    y: float = 0.0

    def x(self, at_s: float) -> float:
        share = (min(max(at_s, self.begin_s), self.end_s) - self.begin_s) / (self.end_s - self.begin_s)
        return self.left + share * (self.right - self.left)


def over_time(
    series: Series, faults: Sequence[FaultReport], width: int, changed: Sequence[Span] = ()
) -> Markup:
    """Return the drawing. Below a width of 600 pixels it has smaller margins and less text.

    `changed` are the requests to mark in the lane `protocol`, which exists only if there are some.
    """
    wide = width >= 600
    transactions = f"{number(sum(series.committed.values()))} transactions and " if series.outcomes else ""
    description = (
        f"{transactions}{number(sum(series.records.values()))} records were "
        f"{'committed' if series.outcomes else 'written'} in {number(series.end_s)} s, "
        f"under {plural(len(faults), 'fault')}. The numbers are in the table below."
    )
    drawing = Drawing(f"over-time-{width}", width, "The run over time", description)
    frame = _Frame(drawing, 128 if wide else 110, width - (84 if wide else 62), *_span(series, faults))
    lanes = _lanes(frame, faults, wide)
    frame.y = lanes * LANE + 8
    bottom = frame.y + _height(series) + (GAP + STRIP if changed else 0)
    for fault in faults:
        _band(frame, fault, bottom)
    _fault_names(frame, faults, lanes, wide)
    if changed:
        _protocol(frame, changed)
    if series.outcomes:
        _rate(frame, series, "Committed transactions", "per second", "rate")
    _rate(
        frame, series, "Committed records" if series.outcomes else "Records written", "per second", "records"
    )
    if series.outcomes:
        _latency(frame, series)
    for stage in series.stages[:MOST_STAGES]:
        _stage(frame, series, stage)
    time_axis(drawing, frame.left, frame.right, bottom, (frame.begin_s, frame.end_s))
    return drawing.markup(bottom + 24)


def _span(series: Series, faults: Sequence[FaultReport]) -> tuple[float, float]:
    """Return the interval from the first transaction or fault to the end, in seconds since the run began."""
    begin_s = float(series.buckets.start * series.width_s)
    begin_s = min([begin_s, *(fault.start_s for fault in faults)])
    return begin_s, max(series.end_s, begin_s + 1.0)


def _height(series: Series) -> float:
    panels = 3 if series.outcomes else 1
    strips = len(series.stages[:MOST_STAGES]) * (GAP + len(series.categories) * STRIP)
    return panels * (GAP + PANEL) + strips + 10


def _label(fault: FaultReport, index: int, wide: bool) -> str:
    return f"{index} {printable(fault.fault, 30)}" if wide else str(index)


def _lanes(frame: _Frame, faults: Sequence[FaultReport], wide: bool) -> int:
    return 1 + max(_lane_of(frame, faults, wide), default=-1)


def _lane_of(frame: _Frame, faults: Sequence[FaultReport], wide: bool) -> list[int]:
    """Return for each fault the first lane in which its name overlaps no other name."""
    ends: list[float] = []
    lanes = []
    for index, fault in enumerate(faults, 1):
        x = frame.x(fault.start_s)
        free = next((lane for lane, end in enumerate(ends) if end <= x), len(ends))
        if free == len(ends):
            ends.append(0.0)
        ends[free] = x + 8 + 7 * len(_label(fault, index, wide))
        lanes.append(free)
    return lanes


def _fault_names(frame: _Frame, faults: Sequence[FaultReport], lanes: int, wide: bool) -> None:
    for index, (fault, lane) in enumerate(zip(faults, _lane_of(frame, faults, wide), strict=True), 1):
        x, y = frame.x(fault.start_s), lane * LANE
        frame.drawing.line(x, y + 2, x, lanes * LANE + 8, "band-edge")
        frame.drawing.text(x + 4, y + 14, _label(fault, index, wide), kind="fault-name")


def _band(frame: _Frame, fault: FaultReport, bottom: float) -> None:
    x = frame.x(fault.start_s)
    end = frame.right if fault.end_s is None else frame.x(fault.end_s)
    kind = "band" if fault.acted else "band did-not-act"
    hint = f"{fault.fault}, {fault.target}"
    frame.drawing.rect(x, frame.y, end - x, bottom - frame.y, kind=kind, hint=hint)
    frame.drawing.line(x, frame.y, x, bottom, "band-edge")


def _panel(frame: _Frame, name: str, unit: str) -> tuple[float, float]:
    """Draw a panel's name. Returns its upper and lower edge."""
    top = frame.y + GAP
    frame.drawing.text(frame.left, top - 10, name, kind="panel-name")
    frame.drawing.text(frame.left - 8, top - 10, unit, kind="tick", anchor="end")
    frame.y = top + PANEL
    return top, frame.y


def _rate(frame: _Frame, series: Series, name: str, unit: str, kind: str) -> None:
    _, base = _panel(frame, name, unit)
    counts = series.committed if kind == "rate" else series.records
    rates = [counts[bucket] / series.width_s for bucket in series.buckets]
    marks = ticks(0, max(*rates, 1.0), 3)
    high = max(*rates, marks[-1], 1.0)
    for mark in marks:
        y = base - mark / high * PANEL
        frame.drawing.line(frame.left, y, frame.right, y, "grid")
        frame.drawing.text(frame.left - 8, y + 4, number(mark), kind="tick", anchor="end")
    steps: list[tuple[float, float] | None] = []
    for bucket, rate in zip(series.buckets, rates, strict=True):
        y = base - rate / high * PANEL
        steps.append((frame.x(bucket * series.width_s), y))
        steps.append((frame.x((bucket + 1) * series.width_s), y))
    frame.drawing.path(steps, f"area {kind}", base)
    frame.drawing.path(steps, f"curve {kind}")
    mean = sum(rates) / len(rates)
    y = base - mean / high * PANEL
    frame.drawing.text(
        frame.right + 6, y + 4, f"mean {number(round(mean, 1 if mean < 100 else 0))}", kind="tick"
    )


def _latency(frame: _Frame, series: Series) -> None:
    """Draw median and 99th percentile on a logarithmic scale, because a failover takes a thousand times as long as
    a commit.
    """
    top, base = _panel(frame, "Commit latency", "")
    lines = {
        "median": [series.quantile_ms(bucket, 0.5) for bucket in series.buckets],
        "99 %": [series.quantile_ms(bucket, 0.99) for bucket in series.buckets],
    }
    measured = [value for values in lines.values() for value in values if value]
    if not measured:
        frame.drawing.text(frame.left + 4, (top + base) / 2, "no commit was measured", kind="tick")
        return
    low = math.floor(math.log10(min(measured)))
    high = max(math.ceil(math.log10(max(measured))), low + 1)

    def height(value: float) -> float:
        return base - (math.log10(value) - low) / (high - low) * PANEL

    for power in range(low, high + 1, max(1, (high - low) // 4)):
        y = height(10.0**power)
        frame.drawing.line(frame.left, y, frame.right, y, "grid")
        frame.drawing.text(frame.left - 8, y + 4, milliseconds(10.0**power), kind="tick", anchor="end")
    name_positions: list[float] = []
    for (name, values), kind in zip(lines.items(), ("median", "p99"), strict=True):
        points = [
            None if value is None else (frame.x((bucket + 0.5) * series.width_s), height(value))
            for bucket, value in zip(series.buckets, values, strict=True)
        ]
        frame.drawing.path(points, f"curve {kind}")
        y = next(point for point in reversed(points) if point)[1]
        if name_positions and abs(name_positions[0] - y) < 14:  # the two names must not overlap
            y = name_positions[0] - 14
        name_positions.append(y)
        frame.drawing.text(frame.right + 6, y + 4, name, kind=f"curve-name {kind}")


def _protocol(frame: _Frame, changed: Sequence[Span]) -> None:
    """Draw a line for each request, from its sending to its last known step, and a mark for each step."""
    base = frame.y + GAP + STRIP
    frame.drawing.text(frame.left, base - STRIP - 10, "Requests changed by a rule", kind="panel-name")
    frame.drawing.line(frame.left, base, frame.right, base, "grid")
    frame.drawing.text(frame.left - 8, base - 9, "protocol", kind="tick", anchor="end")
    frame.drawing.text(frame.right + 6, base - 9, number(len(changed)), kind="tick")
    for request in changed:
        times = [frame.x((point.at_ns or 0) / 1e9) for point in request.points]
        frame.drawing.line(times[0], base - 13, times[-1], base - 13, "message-line")
        for point, x in zip(request.points, times, strict=True):
            half = 4.0 if point.kind is Kind.ANSWERED else 8.0
            hint = f"{request.words}: {point.words}"
            kind = "sent" if point.kind is Kind.REQUEST else point.kind
            frame.drawing.rect(x - 1.5, base - 13 - half, 3, 2 * half, kind=f"message {kind}", hint=hint)
    frame.y = base


def _stage(frame: _Frame, series: Series, stage: str) -> None:
    """Draw a strip for each outcome, each with its own scale, name and total."""
    top = frame.y + GAP
    of = stage if stage == UNNAMED else f"stage {printable(stage, 30)}"
    frame.drawing.text(frame.left, top - 10, f"Transactions of {of}", kind="panel-name")
    for row, category in enumerate(series.categories):
        base = top + (row + 1) * STRIP
        counts = series.ended(stage, category)
        most = max(counts.values(), default=0)
        frame.drawing.line(frame.left, base, frame.right, base, "grid")
        frame.drawing.text(frame.left - 8, base - 4, category, kind="tick", anchor="end")
        for bucket, count in sorted(counts.items()):
            x, end = frame.x(bucket * series.width_s), frame.x((bucket + 1) * series.width_s)
            height = max(count / most * (STRIP - 6), 1.5)
            frame.drawing.rect(x + 0.4, base - height, end - x - 0.8, height, kind=f"bar {_KINDS[category]}")
        total = sum(counts.values())
        kind = "tick" if total == 0 or row == 0 else "tick strong"
        frame.drawing.text(frame.right + 6, base - 4, number(total), kind=kind)
    frame.y = top + len(series.categories) * STRIP


# Bars


@dataclass(frozen=True)
class Bar:
    """One row. Times are seconds since the start of the run. `end_s` None: the end is not known. `tick_s`: the time of
    a mark in the bar.
    """

    label: str
    start_s: float
    end_s: float | None
    kind: str = "ok"
    tick_s: float | None = None
    note: str = ""


def gantt(
    ident: str, width: int, title: str, bars: Sequence[Bar], faults: Sequence[FaultReport] = ()
) -> Markup | None:
    """Return the drawing, with each bar under its label; None if there are no bars."""
    bars = bars[:MOST_ROWS]
    if not bars:
        return None
    low = min(bar.start_s for bar in bars)
    high = max(max(filter(None, (bar.end_s, bar.tick_s, bar.start_s)), default=0.0) for bar in bars)
    high = max(high, low + 1e-3)
    pad = (high - low) * 0.04
    low, high = low - pad, high + pad
    near = [fault for fault in faults if fault.start_s < high and (fault.end_s is None or fault.end_s > low)]
    drawing = Drawing(ident, width, title, _description(bars, near), "gantt")
    left, right = 4.0, width - 8.0
    bottom = (18 if near else 2) + len(bars) * ROW + 6.0

    def x(at_s: float) -> float:
        return left + (min(max(at_s, low), high) - low) / (high - low) * (right - left)

    for index, fault in enumerate(near):
        start, end = x(fault.start_s), right if fault.end_s is None else x(fault.end_s)
        drawing.rect(start, 16, end - start, bottom - 16, kind="band" if fault.acted else "band did-not-act")
        drawing.line(start, 4, start, bottom, "band-edge")
        if index == 0 or start - x(near[index - 1].start_s) > 7 * len(near[index - 1].fault) + 12:
            drawing.text(min(start + 4, right - 6.6 * len(fault.fault)), 12, fault.fault, kind="fault-name")
    for row, bar in enumerate(bars):
        y = (18 if near else 2) + row * ROW
        start, end = x(bar.start_s), right if bar.end_s is None else x(bar.end_s)
        max_characters = int(width / 6.4)
        drawing.text(
            left, y + 14, f"{bar.label} {bar.note}"[:max_characters], kind="row-name", most=max_characters
        )
        kind = f"bar {bar.kind}" + (" no-end" if bar.end_s is None else "")
        drawing.rect(start, y + 20, max(end - start, 2), 12, kind=kind)
        if bar.tick_s is not None:
            drawing.line(x(bar.tick_s), y + 17, x(bar.tick_s), y + 35, "tick-mark")
    time_axis(
        drawing,
        left + 8,
        right - 8,
        bottom,
        (low + 8 * (high - low) / (right - left), high - 8 * (high - low) / (right - left)),
    )
    return drawing.markup(bottom + 24)


def phases(items: Sequence[RunPhase], width: int) -> Markup | None:
    """Draw the phases of a run."""
    bars = [
        Bar(
            printable(item.name, 40),
            item.start_s,
            item.end_s,
            "phase",
            note="· " + seconds(item.end_s - item.start_s),
        )
        for item in items
    ]
    return gantt(f"phases-{width}", width, "The run's phases", bars)


def operations(
    ident: str,
    example: Example,
    faults: Sequence[FaultReport],
    width: int,
    changed: Sequence[Span] = (),
) -> Markup | None:
    """Draw when the operations of a finding were called, asked for the commit, and returned, and when requests that
    a rule changed were sent, delivered and answered.
    """
    bars = []
    for operation in example.operations:
        call, commit, back = (integer(operation.get(name)) for name in ("call_ns", "commit_ns", "return_ns"))
        if call is None:
            continue
        outcome = operation.get("outcome")
        bars.append(
            Bar(
                operation.words,
                call / 1e9,
                None if back is None else back / 1e9,
                _OUTCOMES.get(str(outcome), "info"),
                None if commit is None else commit / 1e9,
                f"· {printable(outcome, 20)}"
                + ("" if operation.label == "operation" else f", the {operation.label}"),
            )
        )
    for request in changed if bars else ():
        delivered = [point.at_ns for point in request.points if point.kind is Kind.DELIVERED]
        last_ns = max(point.at_ns or request.from_ns for point in request.points)
        tick_s = delivered[0] / 1e9 if delivered and delivered[0] is not None else None
        note = f"· {request.subject}"
        bars.append(Bar(request.words, request.from_ns / 1e9, last_ns / 1e9, "rule", tick_s, note))
    return gantt(f"{ident}-{width}", width, "The operations over time", bars, faults)


def _description(bars: Sequence[Bar], faults: Sequence[FaultReport]) -> str:
    rows = [f"{bar.label} from {seconds(bar.start_s)} to {seconds(bar.end_s)} {bar.note}" for bar in bars]
    rows += [f"{fault.fault} from {seconds(fault.start_s)} to {seconds(fault.end_s)}" for fault in faults]
    return "; ".join(rows)
