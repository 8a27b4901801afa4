"""What a suite file says will fail: known failures, and planted defects, which have to be caught.

A run that is invalid by nothing but what is listed for it is no news: it is `known`, or, of a planted defect, `caught`.
A run with a planted defect that is valid is bad: its checker has gone blind, or no fault struck that reveals it.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from fencepost import registry
from fencepost.suites import known as failures
from fencepost.suites.known import Known
from fencepost.suites.listed import OWN, Listed, forbidden, read_table, require_used, unlisted
from harness.errors import UsageError
from harness.suite import Cell, State
from harness.verdict import Validity, Verdict

LOOK = (
    "repeat the run and look at its faults: if none struck that reveals the defect, name one with nemesis or set a "
    "longer time-limit; if one did, a checker no longer finds what it should"
)
"""What to do about a planted defect that was not caught."""


@dataclass(frozen=True)
class Foreseen:
    """The tables of a suite file."""

    known: Sequence[Known] = ()
    expected: Sequence[Listed] = ()


@dataclass(frozen=True)
class Weighed:
    """What a verdict means for its cell."""

    state: State
    reason: str
    known: str = ""  # why the failure is known
    expected: str = ""  # why the defect is planted
    unlisted: Sequence[str] = ()  # anomalies that no table names, in a cell for which there is one
    remedy: str = ""


def read(
    known: Sequence[Mapping[str, Any]], expected: Sequence[Mapping[str, Any]], anomalies: Collection[str]
) -> Foreseen:
    """The tables `[[known]]` and `[[expected]]`. Raises `UsageError`."""
    planted = [_read(f"expected {n}", table, anomalies) for n, table in enumerate(expected, 1)]
    return Foreseen(failures.read(known, anomalies), planted)


def _read(where: str, table: Mapping[str, Any], anomalies: Collection[str]) -> Listed:
    if "until" in table:
        raise UsageError(f"{where} has an until: a planted defect is expected on every day, so remove it")
    listed = read_table(where, table, anomalies, OWN)
    defect = registry.defects().get(str(table.get("defect")))
    if defect and (never := [name for name in listed.anomalies if name not in defect.anomalies]):
        raise UsageError(
            f"{where}: the defect {defect.name} does not cause {never[0]}; it may cause "
            f"{', '.join(sorted(defect.anomalies))}"
        )
    return listed


def require_clear(foreseen: Foreseen, cells: Sequence[Cell]) -> None:
    """Raise `UsageError` for a table that is about no cell, and for a cell that is in both lists."""
    require_used([*foreseen.known, *foreseen.expected], cells)
    for cell in cells:
        known = next((one for one in foreseen.known if one.has(cell)), None)
        expected = next((one for one in foreseen.expected if one.has(cell)), None)
        if known and expected:
            raise UsageError(
                f'cell "{cell.name}" is in {known.where} and in {expected.where}: a failure is either known or '
                "expected, so remove it from one of them"
            )


def weigh(verdict: Verdict, cell: Cell, foreseen: Foreseen, today: date) -> Weighed:
    """The state of a cell that has a verdict, and why."""
    planted = [one for one in foreseen.expected if one.has(cell)]
    why = "; ".join(one.why for one in planted)
    if verdict.valid is Validity.UNKNOWN:
        return Weighed(State.UNKNOWN, verdict.summary, expected=why)
    if verdict.valid is Validity.VALID:
        if not planted:
            return Weighed(State.VALID, verdict.summary)
        return _missed(planted, why)
    known = [one for one in foreseen.known if one.has(cell) and not one.expired(today)]
    found, more = forbidden(verdict), unlisted(verdict, [*planted, *known])
    if more or not found:
        reason = verdict.summary
        if more and (planted or known):
            counts = ", ".join(f"{name} {found[name]:,}" for name in more)
            reason = f"not listed in [[{'expected' if planted else 'known'}]]: {counts}; {reason}"
        return Weighed(State.INVALID, reason, expected=why, unlisted=more)
    if planted:
        not_found = [one for one in planted if not set(one.anomalies) & set(found)]
        return _missed(not_found, why) if not_found else Weighed(State.CAUGHT, verdict.summary, expected=why)
    return _as_known(verdict, _why_known(known, found))


def _missed(planted: Sequence[Listed], why: str) -> Weighed:
    """Each planted defect has to be found by an anomaly of its own."""
    names = " or ".join(dict.fromkeys(name for one in planted for name in one.anomalies))
    reason = f"the planted defect was not caught: expected {names}"
    return Weighed(State.MISSED, reason, expected=why, remedy=LOOK)


def _as_known(verdict: Verdict, why: str) -> Weighed:
    """What is known excuses no evidence that is missing."""
    if not verdict.unknown_because:
        return Weighed(State.KNOWN, verdict.summary, known=why)
    lacks = verdict.unknown_because[0]
    reason = f"beside what is known, evidence is missing: {lacks.text}"
    return Weighed(State.UNKNOWN, reason, known=why, remedy=lacks.remedy)


def _why_known(known: Sequence[Known], found: Collection[str]) -> str:
    """The tables by which it is known: those whose anomalies were found."""
    used = [one for one in known if set(one.anomalies) & set(found)] or known
    return "; ".join(f"{one.why} (until {one.until})" for one in used)
