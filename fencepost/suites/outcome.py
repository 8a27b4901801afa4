"""The outcome of a cell: the state that follows from its verdict and the listed failures, or why it has no verdict."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from msgspec import structs

from fencepost import registry
from fencepost.suites.failures import ListedFailure, ListedFailures, forbidden, unlisted
from fencepost.suites.previous import fingerprint
from harness.common.errors import FencepostError, UnreadableInput
from harness.common.wording import printable
from harness.results.run_metadata import RunMetadata
from harness.results.suite import Cell, CellState
from harness.results.verdict import FaultReport, Validity, Verdict
from reports.findings_text import first_example_sentence
from reports.summary import causes_first

MOST_CHARACTERS = 1_000
"""Maximum characters of a sentence in `suite.json`. The report of the run has the full sentence."""
MISSED_REMEDY = (
    "repeat the run and look at its faults: if none that reveals the defect acted, name such a fault with nemesis or "
    "set a longer time-limit; if one acted, a checker no longer finds the defect"
)


def ended(cell: Cell, suite_folder: Path, run: Path) -> Cell:
    """A cell whose run has ended and has no verdict yet."""
    try:
        metadata = RunMetadata.load(run / "metadata.json")
    except UnreadableInput:
        metadata = RunMetadata()
    versions = dict(metadata.versions)
    return structs.replace(
        cell,
        state=CellState.NOT_CHECKED,
        reason="",
        run=str(run.relative_to(suite_folder)),
        versions=versions,
        fingerprint=fingerprint(cell.options, versions),
        faults=_acted(metadata.faults, metadata.unscheduled),
        not_exercised=dict(metadata.unscheduled),
    )


def failed(cell: Cell, why: str) -> Cell:
    """A cell whose run has no verdict, because Fencepost or its environment failed."""
    key = cell.fingerprint or fingerprint(cell.options, cell.versions)
    return structs.replace(cell, state=CellState.FAILED, reason=why, fingerprint=key)


def with_verdict(cell: Cell, result: Verdict | FencepostError, failures: ListedFailures, today: date) -> Cell:
    """A cell with its verdict, or with the error that prevented one."""
    if isinstance(result, FencepostError):
        return failed(cell, str(result))
    planted = [failure for failure in failures.expected if failure.applies_to(cell)]
    known = [failure for failure in failures.known if failure.applies_to(cell) and not failure.expired(today)]
    decision = _decide(result, planted, known)
    examples = [(name, findings) for name, findings in causes_first(result.anomalies) if findings.example]
    unlisted_first = sorted(examples, key=lambda example: example[0] not in decision.unlisted)
    unknown = result.unknown_because if result.validity is Validity.UNKNOWN else ()
    remedy = decision.remedy or (printable(unknown[0].remedy, MOST_CHARACTERS) if unknown else "")
    return structs.replace(
        cell,
        state=decision.state,
        reason=decision.reason,
        anomalies=forbidden(result),
        known=decision.known,
        expected="; ".join(failure.why for failure in planted),
        first=printable(first_example_sentence(*unlisted_first[0]), MOST_CHARACTERS) if examples else "",
        remedy=remedy,
        codes=tuple(sorted({f"{reason.code} {reason.subject}".strip() for reason in unknown})),
        faults=_acted(result.faults, result.not_exercised),
        gaps_s=_longest_gaps(result.faults),
        not_exercised=dict(result.not_exercised),
    )


@dataclass(frozen=True)
class _Decision:
    state: CellState
    reason: str
    known: str = ""  # why the failure is known
    unlisted: Sequence[str] = ()  # anomalies that no table names
    remedy: str = ""


def _decide(verdict: Verdict, planted: Sequence[ListedFailure], known: Sequence[ListedFailure]) -> _Decision:
    if verdict.validity is Validity.UNKNOWN:
        return _Decision(CellState.UNKNOWN, verdict.summary)
    if verdict.validity is Validity.VALID:
        return _missed(planted) if planted else _Decision(CellState.VALID, verdict.summary)
    counts, more = forbidden(verdict), unlisted(verdict, [*planted, *known])
    if more or not counts:
        reason = verdict.summary
        if more and (planted or known):
            texts = ", ".join(f"{name} {counts[name]:,}" for name in more)
            reason = f"not listed in [[{'expected' if planted else 'known'}]]: {texts}; {reason}"
        return _Decision(CellState.INVALID, reason, unlisted=more)
    if planted:
        missed = [failure for failure in planted if not set(failure.anomalies) & set(counts)]
        return _missed(missed) if missed else _Decision(CellState.CAUGHT, verdict.summary)
    occurred = [failure for failure in known if set(failure.anomalies) & set(counts)] or known
    why = "; ".join(f"{failure.why} (until {failure.until})" for failure in occurred)
    if not verdict.unknown_because:
        return _Decision(CellState.KNOWN, verdict.summary, known=why)
    missing = verdict.unknown_because[0]  # a known failure excuses no missing evidence
    reason = f"the failure is known, but evidence is missing: {missing.text}"
    return _Decision(CellState.UNKNOWN, reason, known=why, remedy=missing.remedy)


def _missed(planted: Sequence[ListedFailure]) -> _Decision:
    """The decision if no anomaly of a planted defect was found."""
    names = " or ".join(dict.fromkeys(name for failure in planted for name in failure.anomalies))
    reason = f"the planted defect was not caught: expected {names}"
    return _Decision(CellState.MISSED, reason, remedy=MISSED_REMEDY)


def _acted(faults: Iterable[FaultReport], not_exercised: Mapping[str, str]) -> dict[str, int]:
    """How often each fault acted. 0: it was injected without effect, or the run had no time for it."""
    acted = Counter({name: 0 for name in not_exercised if name.partition("@")[0] in registry.nemeses()})
    for fault in faults:
        acted[fault.fault] += fault.acted
    return dict(sorted(acted.items()))


def _longest_gaps(faults: Iterable[FaultReport]) -> dict[str, float]:
    """By fault, the longest time without a commit, in seconds. Faults for which it is not known are left out."""
    gaps_s: dict[str, float] = {}
    for fault in faults:
        gap_s = fault.liveness.longest_gap_s if fault.liveness else None
        if gap_s is not None:
            gaps_s[fault.fault] = max(gap_s, gaps_s.get(fault.fault, 0.0))
    return gaps_s
