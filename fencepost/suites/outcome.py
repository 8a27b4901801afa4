"""What came of a cell: its verdict, weighed with what the suite file foresees, or why there is none."""

from dataclasses import replace
from datetime import date
from pathlib import Path

from fencepost.suites.foreseen import Foreseen, weigh
from fencepost.suites.listed import forbidden
from fencepost.suites.past import fingerprint
from harness.errors import FencepostError, UnreadableInput
from harness.facts import Facts
from harness.suite import Cell, State
from harness.verdict import Verdict


def over(cell: Cell, suite_folder: Path, run: Path) -> Cell:
    """A cell whose run is over and not judged."""
    try:
        versions = dict(Facts.load(run / "facts.json").versions)
    except UnreadableInput:
        versions = {}
    return replace(
        cell,
        state=State.NOT_JUDGED,
        reason="",
        run=str(run.relative_to(suite_folder)),
        versions=versions,
        fingerprint=fingerprint(cell.options, versions),
    )


def failed(cell: Cell, why: str) -> Cell:
    """A cell without a verdict."""
    print_of_plan = cell.fingerprint or fingerprint(cell.options, cell.versions)
    return replace(cell, state=State.FAILED, reason=why, fingerprint=print_of_plan)


def judged(cell: Cell, answer: Verdict | FencepostError, foreseen: Foreseen, today: date) -> Cell:
    """A cell with its verdict, or with why there is none."""
    if isinstance(answer, FencepostError):
        return failed(cell, str(answer))
    weighed = weigh(answer, cell, foreseen, today)
    return replace(
        cell,
        state=weighed.state,
        reason=weighed.reason,
        anomalies=forbidden(answer),
        known=weighed.known,
        expected=weighed.expected,
    )


def stored(cell: Cell, suite_folder: Path) -> Verdict | None:
    """The verdict that lies in the cell's run; None where there is none that can be read."""
    if cell.run is None:
        return None
    try:
        return Verdict.load(suite_folder / cell.run / "verdict.json")
    except UnreadableInput:
        return None
