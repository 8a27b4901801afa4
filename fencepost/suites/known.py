"""Known failures: what a suite file lists, which cells it excuses, and what is to be said of it."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from fencepost.suites.matrix import matches
from harness.errors import UsageError
from harness.names import check_name, on_one_line
from harness.suite import Cell, State
from harness.verdict import Verdict

OWN = ("anomaly", "why", "until")


@dataclass(frozen=True)
class Known:
    """One `[[known]]` table."""

    where: str  # "known 2"
    cells: Mapping[str, Any]  # the options that a cell has to have
    anomalies: tuple[str, ...]
    why: str
    until: date  # the last day on which it counts

    def has(self, cell: Cell) -> bool:
        """Whether it is about this cell."""
        return matches(self.where, self.cells, facts_of(cell))

    def expired(self, today: date) -> bool:
        """Whether it counts no more."""
        return today > self.until

    def as_json(self) -> dict[str, Any]:
        """As `suite.json` has it, and as `read` takes it."""
        return {
            **self.cells,
            "anomaly": list(self.anomalies),
            "why": self.why,
            "until": self.until.isoformat(),
        }


def facts_of(cell: Cell) -> dict[str, Any]:
    """What tables may ask of a cell: its options by key, and its faults in words."""
    return {**cell.options, "nemesis": cell.nemesis}


def read(tables: Sequence[Mapping[str, Any]], anomalies: Collection[str]) -> list[Known]:
    """The known failures of a suite file. Raises `UsageError`."""
    return [_read(f"known {n}", table, anomalies) for n, table in enumerate(tables, 1)]


def _read(where: str, table: Mapping[str, Any], anomalies: Collection[str]) -> Known:
    for key in OWN:
        if key not in table:
            raise UsageError(
                f"{where} has no {key}: a known failure names its anomaly, says why, and until which day it counts"
            )
    named = table["anomaly"] if isinstance(table["anomaly"], list) else [table["anomaly"]]
    for name in named:
        if not isinstance(name, str):
            raise UsageError(f"{where}: anomaly must be the name of an anomaly, not {name!r}")
        try:
            check_name("anomaly", name, anomalies)
        except UsageError as error:
            raise UsageError(f"{where}: {error}") from None
    if not named:
        raise UsageError(f"{where}: anomaly lists nothing: name at least one")
    why = table["why"]
    if not isinstance(why, str) or not why.strip():
        raise UsageError(f"{where}: why must say in a sentence what causes it, not {why!r}")
    cells = {key: value for key, value in table.items() if key not in OWN}
    matches(where, cells, {})  # an option that nobody knows
    return Known(where, cells, tuple(named), on_one_line(why), _day(where, table["until"]))


def _day(where: str, value: object) -> date:
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    try:
        if isinstance(value, str):
            return date.fromisoformat(value)
    except ValueError:
        pass
    shown = on_one_line(str(value))
    raise UsageError(f"{where}: until must be a day, as 2027-01-31, not {shown}")


def require_used(known: Sequence[Known], cells: Sequence[Cell]) -> None:
    """Raise `UsageError` for one that is about no cell."""
    for one in known:
        if not any(one.has(cell) for cell in cells):
            raise UsageError(f"{one.where} is about no cell of this suite: correct it, or remove it")


def forbidden(verdict: Verdict) -> dict[str, int]:
    """What makes a run invalid, and how much of each there is."""
    return {name: found.count for name, found in verdict.anomalies.items() if not found.allowed}


def excuse(verdict: Verdict, cell: Cell, known: Sequence[Known], today: date) -> str:
    """Why an invalid cell is known; "" where it is not: an anomaly that is not listed, or no longer.

    An anomaly that follows from a listed one is known with it.
    """
    there = [one for one in known if one.has(cell) and not one.expired(today)]
    listed = {name for one in there for name in one.anomalies}
    found = forbidden(verdict)

    def covered(name: str) -> bool:
        seen: set[str] = set()
        while name not in listed:
            seen.add(name)
            cause = verdict.anomalies[name].because if name in verdict.anomalies else None
            if cause is None or cause in seen:
                return False
            name = cause
        return True

    if not found or not all(map(covered, found)):
        return ""
    used = [one for one in there if set(one.anomalies) & set(found)]
    return "; ".join(f"{one.why} (until {one.until})" for one in used)


def remarks(known: Sequence[Known], cells: Sequence[Cell], today: date) -> Iterator[str]:
    """What is to be said of known failures: one that has expired, and one that no run shows any more."""
    for one in known:
        about = [cell for cell in cells if one.has(cell)]
        judged = [cell for cell in about if cell.state in (State.VALID, State.KNOWN, State.INVALID)]
        shown = [cell for cell in judged if set(one.anomalies) & set(cell.anomalies)]
        what = f"{one.where} ({', '.join(one.anomalies)}: {one.why})"
        if shown and one.expired(today):
            names = ", ".join(cell.name for cell in shown[:3])
            yield f"{what} expired on {one.until}, and counts as a failure: {names}"
        elif judged and not shown and len(judged) == len(about):
            yield f"{what} no longer fails in any of its {len(about)} cells: remove it from the suite file"
