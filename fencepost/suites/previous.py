"""Previous suites of the same name: what has changed since, how often each cell was bad, which cells ran long ago."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import structs

from harness.common.errors import UnreadableInput
from harness.results.conclusions import recurrences
from harness.results.suite import SUITE_FILE, Cell, CellState, Flake, Suite

MOST_SUITES = 30
"""Maximum number of suites in which the runs of a cell are counted, including the current suite."""
NOT_COMPARED = frozenset(
    {"seed", "store", "name", "keep", "java", "toxiproxy", "postgres", "mirror", "master", "spark-conf"}
)
"""Options that do not change what a run tests."""
WRONG = (CellState.INVALID, CellState.MISSED)


def previous_suites(store: Path, name: str, before: str) -> list[Suite]:
    """Suites of this name that began before a time (UTC, ISO 8601), newest first. Skips unreadable ones."""
    suites = []
    for path in sorted((store / name).glob(f"*/{SUITE_FILE}"), reverse=True):
        if path.parent.is_symlink():
            continue
        try:
            suite = Suite.load(path.parent)
        except UnreadableInput:
            continue
        if suite.name == name and suite.started < before:
            suites.append(suite)
    return sorted(suites, key=lambda suite: suite.started, reverse=True)[: MOST_SUITES - 1]


def fingerprint(options: Mapping[str, Any], versions: Mapping[str, str]) -> str:
    """Identify what a run tests. Runs with the same fingerprint can be compared."""
    text = json.dumps([_compared_options(options), dict(versions)], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _compared_options(options: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in options.items() if key not in NOT_COMPARED}


def _comparable(cell: Cell, other: Cell) -> bool:
    """Compare options alone if a run failed before it knew its versions."""
    if cell.versions and other.versions:
        return cell.fingerprint == other.fingerprint
    return _compared_options(cell.options) == _compared_options(other.options)


def compare(suite: Suite, previous: Sequence[Suite]) -> Suite:
    """Set `before`, `new` and `flake` of each cell. `previous`: newest first."""
    by_name = [{cell.name: cell for cell in older.cells} for older in previous]
    cells = [
        _compare(cell, [cells[cell.name] for cells in by_name if cell.name in cells]) for cell in suite.cells
    ]
    return structs.replace(
        suite,
        cells=cells,
        previous=previous[0].started if previous else None,
        recurrences=recurrences(
            ({fault for fault, times in cell.faults.items() if times}, set(cell.anomalies))
            for each in (suite, *previous)
            for cell in each.cells
            if cell.state.is_checked
        ),
    )


def _compare(cell: Cell, previous: Sequence[Cell]) -> Cell:
    with_outcome = [older for older in previous if older.state.good or older.state.bad]
    last = with_outcome[0] if with_outcome else None
    comparable = [run for run in [cell, *with_outcome[: MOST_SUITES - 1]] if _comparable(run, cell)]
    counted = [run for run in comparable if run.state.good or run.state.bad]
    flake = Flake(len(counted), sum(run.state.bad for run in counted))
    return structs.replace(cell, before=last.state if last else None, new=_is_new(cell, last), flake=flake)


def _is_new(cell: Cell, last: Cell | None) -> bool:
    """Return True if the cell is newly bad: its last run was good, or there was none.

    An invalid or missed cell is also new after a run that was unknown or failed, and if it has a new anomaly.
    """
    if not cell.state.bad or last is None or last.state.good:
        return cell.state.bad
    if cell.state in WRONG:
        return last.state not in WRONG or bool(cell.anomalies.keys() - last.anomalies.keys())
    return False


def oldest_run_first(cells: Sequence[Cell], previous: Sequence[Suite]) -> list[Cell]:
    """Sort cells by the time of their last run. Cells that never ran come first."""
    last: dict[str, str] = {}
    for suite in previous:
        for cell in suite.cells:
            if cell.state is not CellState.NOT_RUN:
                last[cell.name] = max(last.get(cell.name, ""), cell.started or suite.started)
    return sorted(cells, key=lambda cell: last.get(cell.name, ""))
