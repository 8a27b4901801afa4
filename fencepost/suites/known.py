"""Known failures: what a suite file lists, until when it counts, and what is to be said of it."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from fencepost.suites.listed import OWN, Listed, read_table
from harness.errors import UsageError
from harness.names import on_one_line
from harness.suite import Cell, State


@dataclass(frozen=True)
class Known(Listed):
    """One `[[known]]` table."""

    until: date  # the last day on which it counts

    def expired(self, today: date) -> bool:
        """Whether it counts no more."""
        return today > self.until

    def as_json(self) -> dict[str, Any]:
        """As `suite.json` has it, and as `read` takes it."""
        return {**super().as_json(), "until": self.until.isoformat()}


def read(tables: Sequence[Mapping[str, Any]], anomalies: Collection[str]) -> list[Known]:
    """The known failures of a suite file. Raises `UsageError`."""
    return [_read(f"known {n}", table, anomalies) for n, table in enumerate(tables, 1)]


def _read(where: str, table: Mapping[str, Any], anomalies: Collection[str]) -> Known:
    if "until" not in table:
        raise UsageError(
            f"{where} has no until: name the last day on which the failure counts as known, as 2027-01-31"
        )
    one = read_table(where, table, anomalies, (*OWN, "until"))
    return Known(one.where, one.cells, one.anomalies, one.why, _day(where, table["until"]))


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
