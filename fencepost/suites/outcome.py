"""What came of a cell: its verdict, weighed with what the suite file foresees, or why there is none."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

from fencepost import registry
from fencepost.suites.foreseen import Foreseen, weigh
from fencepost.suites.listed import forbidden
from fencepost.suites.past import fingerprint
from harness.errors import FencepostError, UnreadableInput
from harness.facts import Facts
from harness.suite import Cell, State
from harness.telling.words import printable
from harness.verdict import FaultReport, Validity, Verdict
from reports.summary import causes_first
from reports.told import sentence

MOST_CHARACTERS = 1_000
"""Of a sentence that is kept of a run; its report has all of it."""


def over(cell: Cell, suite_folder: Path, run: Path) -> Cell:
    """A cell whose run is over and not judged."""
    try:
        facts = Facts.load(run / "facts.json")
    except UnreadableInput:
        facts = Facts()
    versions = dict(facts.versions)
    return replace(
        cell,
        state=State.NOT_JUDGED,
        reason="",
        run=str(run.relative_to(suite_folder)),
        versions=versions,
        fingerprint=fingerprint(cell.options, versions),
        faults=_acted(facts.faults, facts.unscheduled),
        not_exercised=dict(facts.unscheduled),
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
    told = replace(
        cell,
        state=weighed.state,
        reason=weighed.reason,
        anomalies=forbidden(answer),
        known=weighed.known,
        expected=weighed.expected,
        **_told(answer, weighed.unlisted),
    )
    return replace(told, remedy=weighed.remedy) if weighed.remedy else told


def _told(verdict: Verdict, unlisted: Sequence[str]) -> dict[str, Any]:
    """What a verdict says beside its reason. `unlisted`: anomalies that nobody foresaw, the first of which is told."""
    unknown = verdict.unknown_because if verdict.valid is Validity.UNKNOWN else ()
    examples = [(name, found) for name, found in causes_first(verdict.anomalies) if found.example]
    news = [(name, found) for name, found in examples if name in unlisted]
    first = next((sentence(name, found) for name, found in [*news, *examples]), "")
    return {
        "first": printable(first, MOST_CHARACTERS),
        "remedy": printable(unknown[0].remedy, MOST_CHARACTERS) if unknown else "",
        "codes": tuple(sorted({f"{reason.code} {reason.subject}".strip() for reason in unknown})),
        "faults": _acted(verdict.faults, verdict.not_exercised),
        "not_exercised": dict(verdict.not_exercised),
    }


def _acted(faults: Iterable[FaultReport], not_exercised: Mapping[str, str]) -> dict[str, int]:
    """How many of each fault acted; 0 of one that struck and did nothing, and of one for which there was no room."""
    acted = Counter({name: 0 for name in not_exercised if name.partition("@")[0] in registry.nemeses()})
    for fault in faults:
        acted[fault.fault] += fault.acted
    return dict(sorted(acted.items()))


def stored(cell: Cell, suite_folder: Path) -> Verdict | None:
    """The verdict that lies in the cell's run; None where there is none that can be read."""
    if cell.run is None:
        return None
    try:
        return Verdict.load(suite_folder / cell.run / "verdict.json")
    except UnreadableInput:
        return None
