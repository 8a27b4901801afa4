"""The outcome of a cell: the state that follows from its verdict and the listed failures, or why it has no verdict."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from fencepost import registry
from fencepost.suites.failures import ListedFailure, ListedFailures, forbidden, unlisted
from fencepost.suites.previous import fingerprint
from harness.common.errors import FencepostError, UnreadableInput
from harness.results.run_metadata import RunMetadata
from harness.results.suite import Cell, CellState
from harness.results.verdict import FaultReport, Validity, Verdict
from harness.results.wording import printable
from reports.findings_text import first_example_sentence
from reports.summary import causes_first

MOST_CHARACTERS = 1_000
"""Longest sentence that `suite.json` keeps of a run; the report of the run has all of it."""
MISSED_REMEDY = (
    "repeat the run and look at its faults: if none struck that reveals the defect, name one with nemesis or set a "
    "longer time-limit; if one did, a checker no longer finds what it should"
)


def ended(cell: Cell, suite_folder: Path, run: Path) -> Cell:
    """A cell whose run has ended and has no verdict yet."""
    try:
        facts = RunMetadata.load(run / "metadata.json")
    except UnreadableInput:
        facts = RunMetadata()
    versions = dict(facts.versions)
    return replace(
        cell,
        state=CellState.NOT_CHECKED,
        reason="",
        run=str(run.relative_to(suite_folder)),
        versions=versions,
        fingerprint=fingerprint(cell.options, versions),
        faults=_acted(facts.faults, facts.unscheduled),
        not_exercised=dict(facts.unscheduled),
    )


def failed(cell: Cell, why: str) -> Cell:
    """A cell whose run has no verdict, because Fencepost or its environment failed."""
    compared = cell.fingerprint or fingerprint(cell.options, cell.versions)
    return replace(cell, state=CellState.FAILED, reason=why, fingerprint=compared)


def with_verdict(cell: Cell, answer: Verdict | FencepostError, failures: ListedFailures, today: date) -> Cell:
    """A cell with its verdict, or with the error that prevented one."""
    if isinstance(answer, FencepostError):
        return failed(cell, str(answer))
    planted = [one for one in failures.expected if one.applies_to(cell)]
    known = [one for one in failures.known if one.applies_to(cell) and not one.expired(today)]
    decided = _decide(answer, planted, known)
    examples = [(name, found) for name, found in causes_first(answer.anomalies) if found.example]
    unlisted_first = sorted(examples, key=lambda example: example[0] not in decided.unlisted)
    unknown = answer.unknown_because if answer.valid is Validity.UNKNOWN else ()
    remedy = decided.remedy or (printable(unknown[0].remedy, MOST_CHARACTERS) if unknown else "")
    return replace(
        cell,
        state=decided.state,
        reason=decided.reason,
        anomalies=forbidden(answer),
        known=decided.known,
        expected="; ".join(one.why for one in planted),
        first=printable(first_example_sentence(*unlisted_first[0]), MOST_CHARACTERS) if examples else "",
        remedy=remedy,
        codes=tuple(sorted({f"{reason.code} {reason.subject}".strip() for reason in unknown})),
        faults=_acted(answer.faults, answer.not_exercised),
        not_exercised=dict(answer.not_exercised),
    )


@dataclass(frozen=True)
class _Decision:
    state: CellState
    reason: str
    known: str = ""  # why the failure is known
    unlisted: Sequence[str] = ()  # anomalies that no table names
    remedy: str = ""


def _decide(verdict: Verdict, planted: Sequence[ListedFailure], known: Sequence[ListedFailure]) -> _Decision:
    if verdict.valid is Validity.UNKNOWN:
        return _Decision(CellState.UNKNOWN, verdict.summary)
    if verdict.valid is Validity.VALID:
        return _missed(planted) if planted else _Decision(CellState.VALID, verdict.summary)
    found, more = forbidden(verdict), unlisted(verdict, [*planted, *known])
    if more or not found:
        reason = verdict.summary
        if more and (planted or known):
            counts = ", ".join(f"{name} {found[name]:,}" for name in more)
            reason = f"not listed in [[{'expected' if planted else 'known'}]]: {counts}; {reason}"
        return _Decision(CellState.INVALID, reason, unlisted=more)
    if planted:
        not_found = [one for one in planted if not set(one.anomalies) & set(found)]
        return _missed(not_found) if not_found else _Decision(CellState.CAUGHT, verdict.summary)
    used = [one for one in known if set(one.anomalies) & set(found)] or known
    why = "; ".join(f"{one.why} (until {one.until})" for one in used)
    if not verdict.unknown_because:
        return _Decision(CellState.KNOWN, verdict.summary, known=why)
    missing = verdict.unknown_because[0]  # a known failure excuses no missing evidence
    reason = f"beside what is known, evidence is missing: {missing.text}"
    return _Decision(CellState.UNKNOWN, reason, known=why, remedy=missing.remedy)


def _missed(planted: Sequence[ListedFailure]) -> _Decision:
    """Planted defects of which no anomaly was found."""
    names = " or ".join(dict.fromkeys(name for one in planted for name in one.anomalies))
    reason = f"the planted defect was not caught: expected {names}"
    return _Decision(CellState.MISSED, reason, remedy=MISSED_REMEDY)


def _acted(faults: Iterable[FaultReport], not_exercised: Mapping[str, str]) -> dict[str, int]:
    """How often each fault acted; 0 if it was injected without effect, or if the run had no time for it."""
    acted = Counter({name: 0 for name in not_exercised if name.partition("@")[0] in registry.nemeses()})
    for fault in faults:
        acted[fault.fault] += fault.acted
    return dict(sorted(acted.items()))
