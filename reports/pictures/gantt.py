"""Bars along time: the phases of a run, and the operations of one finding."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from harness.record.protocol_journal import JournaledRequest
from harness.results.example import Example
from harness.results.run_metadata import RunPhase
from harness.results.verdict import FaultReport
from harness.results.wording import integer, printable, seconds
from reports.pictures.svg import Drawing, time_axis

ROW = 40
MOST_ROWS = 30
_KINDS = {"ok": "ok", "fail": "fail", "info": "info"}


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
    changed: Sequence[JournaledRequest] = (),
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
                _KINDS.get(str(outcome), "info"),
                None if commit is None else commit / 1e9,
                f"· {printable(outcome, 20)}"
                + ("" if operation.label == "operation" else f", the {operation.label}"),
            )
        )
    for request in changed if bars else ():
        delivered_ns = request.request.delivered_ns
        bars.append(
            Bar(
                request.title,
                request.request.seen_ns / 1e9,
                request.last_ns / 1e9,
                "rule",
                None if delivered_ns is None else delivered_ns / 1e9,
                f"· {request.action}",
            )
        )
    return gantt(f"{ident}-{width}", width, "The operations over time", bars, faults)


def _description(bars: Sequence[Bar], faults: Sequence[FaultReport]) -> str:
    rows = [f"{bar.label} from {seconds(bar.start_s)} to {seconds(bar.end_s)} {bar.note}" for bar in bars]
    rows += [f"{fault.fault} from {seconds(fault.start_s)} to {seconds(fault.end_s)}" for fault in faults]
    return "; ".join(rows)
