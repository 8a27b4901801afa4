"""The outcome of a cell: its state by its verdict and the listed failures, or why it has no verdict.

`[[known]]` excuses anomalies until a day. `[[expected]]` lists the anomalies of a planted defect. A run with a planted
defect that is valid is bad: a checker no longer finds the defect, or no fault revealed it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any

from msgspec import structs

from checkers.registry import CHECKERS
from fencepost import registry
from fencepost.suites.cells import matches
from fencepost.suites.record import fingerprint
from harness.common.errors import FencepostError, UnreadableInput, UsageError
from harness.common.wording import check_name, on_one_line, printable
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


@dataclass(frozen=True)
class ListedFailure:
    """One table `[[known]]` or `[[expected]]`."""

    where: str  # for messages: "known 2"
    options: Mapping[str, Any]  # of the cells in which the failure is listed
    anomalies: tuple[str, ...]
    why: str
    until: date | None = None  # the last day on which a failure is known; None: of a planted defect

    def applies_to(self, cell: Cell) -> bool:
        """Return True if the failure is listed for this cell."""
        own = {"nemesis": cell.nemesis} | ({"workload": cell.workload} if cell.explore else {})
        return matches(self.where, self.options, {**cell.options, **own})

    def expired(self, today: date) -> bool:
        """Return True if the last day of a known failure has passed."""
        return self.until is not None and today > self.until

    def as_json(self) -> dict[str, Any]:
        """The table as `suite.json` stores it and `read` accepts it."""
        until = {} if self.until is None else {"until": self.until.isoformat()}
        return {**self.options, "anomaly": list(self.anomalies), "why": self.why, **until}


@dataclass(frozen=True)
class ListedFailures:
    """All failures that a suite file lists."""

    known: Sequence[ListedFailure] = ()
    expected: Sequence[ListedFailure] = ()


def read(known: Sequence[Mapping[str, Any]], expected: Sequence[Mapping[str, Any]]) -> ListedFailures:
    """Read the tables `[[known]]` and `[[expected]]`. Raises `UsageError`."""
    return ListedFailures(
        [_known(f"known {n}", table) for n, table in enumerate(known, 1)],
        [_expected(f"expected {n}", table) for n, table in enumerate(expected, 1)],
    )


def _known(where: str, table: Mapping[str, Any]) -> ListedFailure:
    if "until" not in table:
        raise UsageError(
            f"{where} has no until: name the last day on which the failure counts as known, as 2027-01-31"
        )
    return _table(where, table, ("anomaly", "why", "until"))


def _expected(where: str, table: Mapping[str, Any]) -> ListedFailure:
    if "until" in table:
        raise UsageError(f"{where} has an until: a planted defect is expected on every day, so remove it")
    listed = _table(where, table, ("anomaly", "why"))
    defect = registry.defects().get(str(table.get("defect")))
    if defect and (never := [name for name in listed.anomalies if name not in defect.anomalies]):
        raise UsageError(
            f"{where}: the defect {defect.name} does not cause {never[0]}; it may cause "
            f"{', '.join(sorted(defect.anomalies))}"
        )
    return listed


def _table(where: str, table: Mapping[str, Any], keys: Sequence[str]) -> ListedFailure:
    """Read one table. All keys except `keys` are options of a cell."""
    for key in keys:
        if key not in table:
            raise UsageError(f"{where} has no {key}: it needs {', '.join(keys)}")
    names = table["anomaly"] if isinstance(table["anomaly"], list) else [table["anomaly"]]
    for name in names:
        if not isinstance(name, str):
            raise UsageError(f"{where}: anomaly must be the name of an anomaly, not {name!r}")
        try:
            check_name("anomaly", name, registry.anomalies())
        except UsageError as error:
            raise UsageError(f"{where}: {error}") from None
    if not names:
        raise UsageError(f"{where}: anomaly is an empty list: name at least one")
    why = table["why"]
    if not isinstance(why, str) or not why.strip():
        raise UsageError(f"{where}: why must be a sentence that names the cause, not {why!r}")
    options = {key: value for key, value in table.items() if key not in keys}
    matches(where, options, {})  # raises for an unknown option
    until = _day(where, table["until"]) if "until" in keys else None
    return ListedFailure(where, options, tuple(names), on_one_line(why), until)


def _day(where: str, value: object) -> date:
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    try:
        if isinstance(value, str):
            return date.fromisoformat(value)
    except ValueError:
        pass
    raise UsageError(f"{where}: until must be a day, as 2027-01-31, not {on_one_line(str(value))}")


def require_consistent(failures: ListedFailures, cells: Sequence[Cell]) -> None:
    """Raise `UsageError` for a table that matches no cell, and for a cell in both lists."""
    for listed in (*failures.known, *failures.expected):
        if not any(listed.applies_to(cell) for cell in cells):
            raise UsageError(f"{listed.where} matches no cell of this suite: correct it, or remove it")
    for cell in cells:
        known = next((failure for failure in failures.known if failure.applies_to(cell)), None)
        expected = next((failure for failure in failures.expected if failure.applies_to(cell)), None)
        if known and expected:
            raise UsageError(
                f'cell "{cell.name}" is in {known.where} and in {expected.where}: a failure is either known or '
                "expected, so remove it from one of them"
            )


def forbidden(verdict: Verdict) -> dict[str, int]:
    """The anomalies that make a run invalid, each with its count."""
    return {name: findings.count for name, findings in verdict.anomalies.items() if not findings.allowed}


def unlisted(verdict: Verdict, listed: Sequence[ListedFailure]) -> list[str]:
    """The forbidden anomalies that no table names, except those that a named anomaly causes.

    A cause counts only if it is proven for each operation. An anomaly that only occurs together with its cause, for
    instance with a hanging transaction, may have another cause.
    """
    names = {name for failure in listed for name in failure.anomalies}
    unproven = {
        because.cause for checker in CHECKERS for because in checker.because if not because.by_operation
    }

    def covered(name: str) -> bool:
        seen: set[str] = set()
        while name not in names:
            seen.add(name)
            cause = verdict.anomalies[name].because if name in verdict.anomalies else None
            if cause is None or cause in seen or cause in unproven:
                return False
            name = cause
        return True

    return [name for name in forbidden(verdict) if not covered(name)]


def remarks(known: Sequence[ListedFailure], cells: Sequence[Cell], today: date) -> Iterator[str]:
    """One sentence for each known failure that has expired, or that no longer occurs in any run."""
    for failure in known:
        listed = [cell for cell in cells if failure.applies_to(cell)]
        checked = [
            cell for cell in listed if cell.state in (CellState.VALID, CellState.KNOWN, CellState.INVALID)
        ]
        failing = [cell for cell in checked if set(failure.anomalies) & set(cell.anomalies)]
        subject = f"{failure.where} ({', '.join(failure.anomalies)}: {failure.why})"
        if failing and failure.expired(today):
            names = ", ".join(cell.name for cell in failing[:3])
            yield f"{subject} expired on {failure.until}, and counts as a failure: {names}"
        elif checked and not failing and len(checked) == len(listed):
            yield f"{subject} no longer fails in any of its {len(listed)} cells: remove it from the suite file"


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
