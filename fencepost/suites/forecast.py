"""Estimate how long the runs of a suite take, and which of them a time limit leaves out. `--plan` prints this."""

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from msgspec import structs

from fencepost.suites.plan import EACH, SuitePlan
from fencepost.suites.previous import oldest_run_first
from harness.common.wording import duration, plural
from harness.results.suite import Cell, CellState, Suite
from harness.settings.options import Options

OVERHEAD_S = 45.0
"""The time of a run beyond its time limit: starting a cluster, draining, final reads."""
NO_TIME = "the suite's --limit left no time for it"


@dataclass(frozen=True)
class Estimate:
    """The runs that have not begun, divided by whether the time limit permits them."""

    begun: Sequence[Cell]
    left_out: Sequence[Cell]  # because of the time limit
    seconds: float  # until the last run has ended


def run_s(options: Options) -> float:
    """Estimate the duration of a run, in seconds."""
    return options.time_limit_s + OVERHEAD_S


def estimate(
    options: Mapping[str, Options],
    waiting: Iterable[Cell],
    jobs: int,
    limit_s: float | None,
    active_s: Sequence[float] = (),
) -> Estimate:
    """Distribute the waiting runs, in this order, over `jobs` processes. Leave out runs that would end after the limit.

    Args:
        options: by name of the cell
        active_s: for each run that is active now, the seconds until its end
    """
    free_s = [*active_s, *[0.0] * (jobs - len(active_s))]  # when each process can start its next run
    heapq.heapify(free_s)
    begun, left_out, end_s = [], [], max(free_s)
    for cell in waiting:
        ends_s = free_s[0] + run_s(options[cell.name])
        if limit_s is not None and ends_s > limit_s:
            left_out.append(cell)
            continue
        heapq.heapreplace(free_s, ends_s)
        begun.append(cell)
        end_s = max(end_s, ends_s)
    return Estimate(begun, left_out, end_s)


@dataclass(frozen=True)
class Preview:
    """The estimated course of a suite, before its remaining runs start."""

    suite: Suite  # its cells have the reason `NO_TIME` if the limit leaves out their run
    estimate: Estimate
    jobs: int
    memory_limited: bool  # memory permits fewer runs side by side than the user wants
    time_limited: bool  # by --limit

    def lines(self) -> Iterator[str]:
        """The duration, then each run with the command that repeats it alone."""
        suite = self.suite
        yield f"suite {suite.name}, seed {suite.seed}: {plural(len(suite.cells), 'run')}"
        yield self._time()
        for cell in suite.cells:
            note = cell.reason if cell.state is CellState.NOT_RUN else str(cell.state)
            yield f"  {cell.name}{f': {note}' if note else ''}"
            yield f"    {cell.command}"

    def _time(self) -> str:
        begun, left_out = len(self.estimate.begun), len(self.estimate.left_out)
        if not begun and not left_out:
            return f"all runs have ended{self._describe_check()}"
        parallel = f"with {self.jobs} side by side" if self.jobs > 1 else "one at a time"
        parallel += ", as many as memory permits" if self.memory_limited else ""
        runs = plural(begun, "run")
        if self.time_limited:
            runs = f"the limit leaves time for {begun} of {plural(begun + left_out, 'run')}"
        time = f": about {duration(self.estimate.seconds)} {parallel}" if begun else ""
        return f"{runs}{time}{self._describe_check()}"

    def _describe_check(self) -> str:
        waits = any(cell.state is CellState.NOT_CHECKED for cell in self.suite.cells)
        if not waits and (not self.estimate.begun or self.suite.judge == EACH):
            return ""
        return "; then they are checked"


def preview(
    plan: SuitePlan, previous: Sequence[Suite], jobs: int, memory_jobs: int, limit_s: float | None
) -> Preview:
    """Estimate the duration of the remaining runs of a suite.

    Args:
        previous: Suites of this name, newest first.
        jobs: Runs side by side, at most.
        memory_jobs: The number of runs for which there is memory.
    """
    waiting = [cell for cell in plan.suite.cells if cell.state is CellState.NOT_RUN]
    if limit_s is not None:
        waiting = oldest_run_first(waiting, previous)
    at_once = max(1, min(jobs, memory_jobs, len(waiting)))
    course = estimate(plan.options, waiting, at_once, limit_s)
    left_out = {cell.name for cell in course.left_out}
    cells = [
        structs.replace(cell, reason=NO_TIME if cell.name in left_out else "")
        if cell.state is CellState.NOT_RUN
        else cell
        for cell in plan.suite.cells
    ]
    return Preview(
        suite=structs.replace(plan.suite, cells=cells),
        estimate=course,
        jobs=at_once,
        memory_limited=memory_jobs < min(jobs, len(waiting)),
        time_limited=limit_s is not None,
    )
