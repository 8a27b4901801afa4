"""What is told of a suite in a line: which faults acted, what is new, and what to do about a run."""

from collections import Counter
from collections.abc import Iterator
from datetime import datetime

from harness.suite import Cell, State, Suite
from harness.telling.words import number, printable

MOST_FAULTS = 40
"""Faults that one line names; there are fewer."""


def clock(moment: object) -> str:
    """`2026-11-24 20:00 UTC`."""
    try:
        return f"{datetime.fromisoformat(str(moment)):%Y-%m-%d %H:%M} UTC"
    except ValueError:
        return printable(moment, 40)


def since(suite: Suite) -> str:
    """`3 new since 2026-11-24 20:00 UTC`; empty where there was no suite before."""
    if suite.previous is None:
        return ""
    new = sum(cell.new for cell in suite.cells)
    return f"{number(new) if new else 'nothing'} new since {clock(suite.previous)}"


def faults(suite: Suite) -> str:
    """`Faults that acted: kill-worker 18, pause-worker 15; never struck: partition (did not act)`; empty without any.

    A fault is named here if a run has drawn or been asked for it, or had no room for it.
    """
    total: Counter[str] = Counter()
    for cell in suite.cells:
        total.update(cell.faults)
    acted = [f"{printable(name, 60)} {number(count)}" for name, count in total.most_common() if count]
    never: dict[str, list[str]] = {}
    for name in sorted(name for name, count in total.items() if not count):
        never.setdefault(_why_not(suite, name), []).append(printable(name, 60))
    if not total:
        return ""
    left = [f"{', '.join(names[:MOST_FAULTS])} ({why})" for why, names in never.items()]
    told = f"Faults that acted: {', '.join(acted[:MOST_FAULTS]) or 'none'}"
    return f"{told}; never struck: {', '.join(left)}" if left else told


def _why_not(suite: Suite, fault: str) -> str:
    """Why a fault never struck: what the first run says that says it."""
    said = (cell.not_exercised[fault] for cell in suite.cells if fault in cell.not_exercised)
    return printable(next(said, "it did not act"), 200)


def anomalies(cell: Cell) -> str:
    """`lost-input 4, G1c 2`."""
    return ", ".join(f"{printable(name, 60)} {number(count)}" for name, count in cell.anomalies.items())


def lead(cell: Cell) -> str:
    """Where to begin with a bad run: the first example of its worst anomaly, or what to do about it; may be empty."""
    if not cell.state.bad:
        return ""
    if cell.first:
        return f"First: {printable(cell.first, 1200)}"
    return f"What to do: {printable(cell.remedy, 1200)}" if cell.remedy else ""


def report_of(cell: Cell) -> str | None:
    """Where the run's report is, from the suite's folder; None where it has none."""
    has_verdict = cell.state not in (State.FAILED, State.NOT_JUDGED, State.NOT_RUN)
    return f"{cell.run}/report.html" if cell.run and has_verdict else None


def log_of(cell: Cell) -> str | None:
    """Where the run's log is, from the suite's folder; None where it has none."""
    return f"logs/{cell.slug}.log" if cell.started is not None and cell.slug else None


def places(cell: Cell) -> Iterator[str]:
    """`report: ...`; of a run without one, `log: ...`."""
    for word, path in (("report", report_of(cell)), ("log", log_of(cell))):
        if path is not None:
            yield f"{word}: {printable(path, 400)}"
            return
