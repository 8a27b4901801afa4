"""What earlier suites of a name say of its cells: what is new, how often each was bad, and what ran least lately."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from harness.suite import Cell, Flake, State, Suite

MOST = 30
"""Suites that are looked at, this one included."""
NOT_COMPARED = frozenset(
    {"seed", "store", "name", "keep", "java", "toxiproxy", "postgres", "mirror", "master", "spark-conf"}
)
"""Options that do not change what a run is about."""

WRONG = (State.INVALID, State.MISSED)


def fingerprint(options: Mapping[str, Any], versions: Mapping[str, str]) -> str:
    """Of what a run compared: verdicts with the same one are verdicts on the same."""
    text = json.dumps([_about(options), dict(versions)], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _about(options: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in options.items() if key not in NOT_COMPARED}


def _alike(one: Cell, other: Cell) -> bool:
    """Whether two runs compared the same; of one that failed before it knew its versions, its options say so."""
    if one.versions and other.versions:
        return one.fingerprint == other.fingerprint
    return _about(one.options) == _about(other.options)


def compared(suite: Suite, past: Sequence[Suite]) -> Suite:
    """The suite, with what its cells were before. `past`: newest first."""
    by_name = [{cell.name: cell for cell in one.cells} for one in past]
    cells = [
        _compared(cell, [cells[cell.name] for cells in by_name if cell.name in cells]) for cell in suite.cells
    ]
    return replace(suite, cells=cells, previous=past[0].started if past else None)


def _compared(cell: Cell, past: Sequence[Cell]) -> Cell:
    judged = [one for one in past if one.state.good or one.state.bad]
    last = judged[0] if judged else None
    alike = [one for one in [cell, *judged[: MOST - 1]] if _alike(one, cell)]
    counted = [one for one in alike if one.state.good or one.state.bad]
    flake = Flake(len(counted), sum(one.state.bad for one in counted))
    return replace(cell, before=last.state if last else None, new=_is_new(cell, last), flake=flake)


def _is_new(cell: Cell, last: Cell | None) -> bool:
    """Whether it is bad, and was not so when it ran last: what is wrong by evidence outweighs what is unknown."""
    if not cell.state.bad or last is None or last.state.good:
        return cell.state.bad
    if cell.state in WRONG:
        return last.state not in WRONG or bool(cell.anomalies.keys() - last.anomalies.keys())
    return False


def least_lately(cells: Sequence[Cell], past: Sequence[Suite]) -> list[Cell]:
    """The cells, those first that never ran, then those whose last run is longest ago."""
    last: dict[str, str] = {}
    for suite in past:
        for cell in suite.cells:
            if cell.state is not State.NOT_RUN:
                last[cell.name] = max(last.get(cell.name, ""), cell.started or suite.started)
    return sorted(cells, key=lambda cell: last.get(cell.name, ""))


def overheads(past: Sequence[Suite]) -> dict[str, float]:
    """By cell, how much longer its latest run that did not fail took than its time limit, in seconds.

    `past`: newest first.
    """
    found: dict[str, float] = {}
    for suite in past:
        for cell in suite.cells:
            if (
                cell.duration_s is not None
                and cell.state is not State.FAILED
                and "time-limit" in cell.options
            ):
                found.setdefault(cell.name, max(0.0, cell.duration_s - float(cell.options["time-limit"])))
    return found


def judging_s(past: Sequence[Suite]) -> float | None:
    """Of one run where all are judged together, as in the latest suite that did so; None: none did."""
    for suite in past:
        judged = sum(cell.state.judged for cell in suite.cells)
        if suite.judging_s and judged:
            return suite.judging_s / judged
    return None
