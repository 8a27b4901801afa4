"""What came of a cell: its verdict, weighed with the known failures, or why there is none."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path

from fencepost.suites.known import Known, excuse, forbidden
from fencepost.suites.past import fingerprint
from harness.errors import FencepostError, UnreadableInput
from harness.facts import Facts
from harness.suite import Cell, State
from harness.verdict import Validity, Verdict


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


def judged(cell: Cell, answer: Verdict | FencepostError, known: Sequence[Known], today: date) -> Cell:
    """A cell with its verdict, or with why there is none."""
    if isinstance(answer, FencepostError):
        return failed(cell, str(answer))
    because = excuse(answer, cell, known, today) if answer.valid is Validity.INVALID else ""
    state = {
        Validity.VALID: State.VALID,
        Validity.UNKNOWN: State.UNKNOWN,
        Validity.INVALID: State.KNOWN if because else State.INVALID,
    }[answer.valid]
    return replace(cell, state=state, reason=answer.summary, anomalies=forbidden(answer), known=because)


def stored(cell: Cell, suite_folder: Path) -> Verdict | None:
    """The verdict that lies in the cell's run; None where there is none that can be read."""
    if cell.run is None:
        return None
    try:
        return Verdict.load(suite_folder / cell.run / "verdict.json")
    except UnreadableInput:
        return None
