"""Failures that a suite file lists: in which runs, and which anomalies.

`[[known]]` lists failures that are known; `[[expected]]` those of a defect that is planted, which have to be found.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from checkers.registry import CHECKERS
from fencepost.suites.matrix import matches
from harness.errors import UsageError
from harness.names import check_name, on_one_line
from harness.suite import Cell
from harness.verdict import Verdict

OWN = ("anomaly", "why")


@dataclass(frozen=True)
class Listed:
    """One table."""

    where: str  # "known 2"
    cells: Mapping[str, Any]  # the options that a cell has to have
    anomalies: tuple[str, ...]
    why: str

    def has(self, cell: Cell) -> bool:
        """Whether it is about this cell."""
        return matches(self.where, self.cells, facts_of(cell))

    def as_json(self) -> dict[str, Any]:
        """As `suite.json` has it, and as it is read again."""
        return {**self.cells, "anomaly": list(self.anomalies), "why": self.why}


def facts_of(cell: Cell) -> dict[str, Any]:
    """What tables may ask of a cell: its options by key, and its faults in words."""
    return {**cell.options, "nemesis": cell.nemesis}


def read_table(
    where: str, table: Mapping[str, Any], anomalies: Collection[str], own: Sequence[str]
) -> Listed:
    """One table, whose keys in `own` are no options. Raises `UsageError`."""
    for key in OWN:
        if key not in table:
            raise UsageError(f"{where} has no {key}: it needs {', '.join(own)}")
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
    cells = {key: value for key, value in table.items() if key not in own}
    matches(where, cells, {})  # an option that nobody knows
    return Listed(where, cells, tuple(named), on_one_line(why))


def require_used(tables: Sequence[Listed], cells: Sequence[Cell]) -> None:
    """Raise `UsageError` for a table that is about no cell."""
    for one in tables:
        if not any(one.has(cell) for cell in cells):
            raise UsageError(f"{one.where} is about no cell of this suite: correct it, or remove it")


def forbidden(verdict: Verdict) -> dict[str, int]:
    """What makes a run invalid, and how much of each there is."""
    return {name: found.count for name, found in verdict.anomalies.items() if not found.allowed}


def unlisted(verdict: Verdict, tables: Sequence[Listed]) -> list[str]:
    """The forbidden anomalies that no table names, and that are proven to follow from none that a table names.

    What merely occurs beside a cause, as beside a hanging transaction, may have another one.
    """
    names = {name for one in tables for name in one.anomalies}
    loose = {because.cause for one in CHECKERS for because in one.because if not because.by_operation}

    def covered(name: str) -> bool:
        seen: set[str] = set()
        while name not in names:
            seen.add(name)
            cause = verdict.anomalies[name].because if name in verdict.anomalies else None
            if cause is None or cause in seen or cause in loose:
                return False
            name = cause
        return True

    return [name for name in forbidden(verdict) if not covered(name)]
