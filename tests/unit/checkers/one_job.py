"""Runs that tests of several files want checked. One Spark job checks all of them, with the cases.

A check of one small run takes about as long as a check of a hundred. A test file adds its runs when it is imported, and
its tests get their results from the fixture `result_of`.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from checkers.checker import Checker
from checkers.checking import run_checks, stored_runs
from checkers.checking.run_checks import Selection
from checkers.stored.sources import StoredRun
from checkers.stored.tables import Tables
from checkers.stored.tally import Tally
from tests.support.histories import WALL_MS, History
from tests.support.stored_tables import write_store


@dataclass(frozen=True, eq=False)
class WantedRun:
    """A history, and the arguments of its `StoredRun`."""

    draw: Callable[[], History]
    arguments: Mapping[str, Any]


WANTED: list[WantedRun] = []


def want(draw: Callable[[], History], **arguments: Any) -> WantedRun:
    """Have a history checked as a stored run."""
    WANTED.append(WantedRun(draw, arguments))
    return WANTED[-1]


def store_wanted(folder: Path, first: int) -> dict[int, tuple[WantedRun, StoredRun]]:
    """Write all wanted runs to one store, with numbers from `first`."""
    numbered = dict(enumerate(WANTED, first))
    write_store(folder, [(run, one.draw()) for run, one in numbered.items()], log=True)
    defaults = {"wall_ms_at_zero": WALL_MS, "had_log": True, "healed": True}
    return {
        run: (one, StoredRun(run, folder, **(defaults | dict(one.arguments))))
        for run, one in numbered.items()
    }


@dataclass
class Job:
    """The shared tables of the one job, and the counts of their rows."""

    tables: Tables = field(init=False)
    counts: Tally = field(init=False)


def watched(patch: pytest.MonkeyPatch) -> Job:
    """Keep what the next job has. Its tables are not freed."""
    job, counting = Job(), run_checks.count_and_select

    def count(tables: Tables, checkers: Sequence[Checker]) -> tuple[Tally, Selection | None]:
        job.tables = tables
        job.counts, selection = counting(tables, checkers)
        return job.counts, selection

    patch.setattr(run_checks, "count_and_select", count)
    patch.setattr(stored_runs, "freeing_checkpoints", lambda _: nullcontext())
    return job
