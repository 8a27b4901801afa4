"""Failures that a suite file lists: known failures, and the failures that planted defects must cause.

`[[known]]` excuses anomalies until a day. `[[expected]]` lists the anomalies of a planted defect. A run with a planted
defect that is valid is bad: a checker no longer finds the defect, or no fault revealed it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from checkers.registry import CHECKERS
from fencepost import registry
from fencepost.suites.matrix import matches
from harness.common.errors import UsageError
from harness.common.wording import check_name, on_one_line
from harness.results.suite import Cell, CellState
from harness.results.verdict import Verdict


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
