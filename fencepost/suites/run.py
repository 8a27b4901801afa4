"""Run a suite: start its runs, as many as memory permits, then check all of them in one Spark job."""

import heapq
import os
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from msgspec import structs

from fencepost.checks.check import check
from fencepost.checks.run_folders import NamedHistory
from fencepost.sharing import shared_spark
from fencepost.suites import outcome
from fencepost.suites.cells import CellRequest, CellResult
from fencepost.suites.outcome import remarks
from fencepost.suites.plan import EACH, SuitePlan
from fencepost.suites.record import RUNS, SuiteRecord, compare, oldest_run_first
from fencepost.terminal_progress import RunningCell, SuiteProgress, SuiteStatus
from harness.common.errors import ExitStatus, FencepostError
from harness.common.machine import free_memory_mb
from harness.common.wording import duration, plural, printable
from harness.environment.doctor import MEMORY_MB, memory_mb
from harness.processes.child import Child
from harness.processes.guardian import sweep_leftovers
from harness.processes.messages import encode
from harness.processes.spawn import Supervisor
from harness.results.suite import Cell, CellState, Suite
from harness.results.verdict import Verdict
from harness.runner.interrupt import Interrupt, InterruptPhase
from harness.settings.options import Options

OVERHEAD_S = 45.0
"""The time of a run beyond its time limit: starting a cluster, draining, final reads."""
NO_TIME = "the suite's --limit left no time for it"
STARTING_S = 45.0
"""Seconds until a run has taken all the memory that it needs."""
POLL_S = 0.2
PROGRAM = (sys.executable, "-P", "-m", "fencepost.suites.cells")


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


@dataclass(frozen=True)
class SuiteSettings:
    """The options of `fencepost suite` that concern its runs and checks."""

    jobs: int  # runs side by side, at most
    limit_s: float | None  # no run starts that would probably end later
    master: str
    spark_conf: Mapping[str, str]
    program: Sequence[str] = PROGRAM  # runs one cell
    most_overhead_s: float = 1_200.0  # a run is killed if it takes this much longer than its time limit


@dataclass
class _ActiveRun:
    cell: Cell
    child: Child
    began: float
    killed_after_s: float | None = None  # because it took too long

    def seconds(self) -> float:
        return time.monotonic() - self.began


class SuiteRun:
    """One command that begins or resumes a suite. Each cell runs in its own process."""

    def __init__(
        self, record: SuiteRecord, plan: SuitePlan, settings: SuiteSettings, progress: SuiteProgress
    ) -> None:
        self._record = record
        self._plan = plan
        self._settings = settings
        self._progress = progress
        self._began = time.monotonic()
        self._today = datetime.now(UTC).date()
        self._check_each = record.suite.judge == EACH
        self._options = plan.options
        waiting = [cell for cell in record.suite.cells if cell.state is CellState.NOT_RUN]
        if settings.limit_s is not None:
            waiting = oldest_run_first(waiting, record.previous)
        self._waiting = deque(waiting)
        self._active: list[_ActiveRun] = []

    def run(self) -> Suite:
        """Run the cells that have not run, check all runs without a verdict, and write the pages.

        Raises:
            KeyboardInterrupt: The user wants the suite to stop at once.
            FencepostError: The runs could not be checked. `--resume` continues from the record.
        """
        record, before_s = self._record, self._record.suite.took_s
        record.change(interrupted=False, ended=None)
        record.update(*(self._decide(cell) for cell in record.suite.cells if cell.state.is_checked))
        with Interrupt() as interrupt:
            for leftover in sweep_leftovers():
                self._progress.say(f"ended what an earlier run had left: {leftover}")
            try:
                interrupt.phase = InterruptPhase.SUITE
                self.run_cells(interrupt)
                interrupt.phase = InterruptPhase.CHECKING
                self._check_together()
            finally:
                record.suite = compare(record.suite, record.previous)
                record.change(
                    ended=datetime.now(UTC).isoformat(timespec="seconds"),
                    interrupted=interrupt.requested,
                    took_s=round(before_s + time.monotonic() - self._began, 1),
                    remarks=tuple(remarks(self._plan.failures.known, record.suite.cells, self._today)),
                )
                record.draw_pages()
        return record.suite

    def _decide(self, cell: Cell) -> Cell:
        """Decide the state of a cell from its stored verdict, the suite file, and today's date."""
        verdict = self._record.verdict_of(cell)
        if verdict is None:
            return outcome.failed(cell, "its verdict is missing, or cannot be read")
        return outcome.with_verdict(cell, verdict, self._plan.failures, self._today)

    def _check_together(self) -> None:
        """Check all runs that have ended and have no verdict, in one Spark job."""
        record = self._record
        cells = [cell for cell in record.suite.cells if cell.state is CellState.NOT_CHECKED and cell.run]
        if not cells:
            return
        self._progress.say(f"checking {plural(len(cells), 'run')} together")
        began = time.monotonic()

        def store_result(n: int, result: Verdict | FencepostError) -> None:
            record.update(outcome.with_verdict(cells[n], result, self._plan.failures, self._today))
            record.refresh_page()

        folders = [record.folder / str(cell.run) for cell in cells]
        check(
            [NamedHistory(str(folder), folder) for folder in folders],
            allow=frozenset(),
            master=self._settings.master,
            spark_conf=self._settings.spark_conf,
            progress=self._progress,
            on_result=store_result,
        )
        record.change(check_s=round(record.suite.check_s + time.monotonic() - began, 1))

    def run_cells(self, interrupt: Interrupt) -> None:
        """Run cells until all have run, the limit leaves no time, or the user interrupts the suite.

        A run that is interrupted is killed. Its cell runs again when the suite is resumed.
        """
        if not self._waiting:
            return
        with ExitStack() as stack:
            if self._check_each:
                stack.enter_context(shared_spark())
            supervisor = stack.enter_context(Supervisor())
            while (self._waiting or self._active) and not interrupt.requested:
                while self._waiting and self._has_room():
                    self._start_next(supervisor)
                for run in [run for run in self._active if self._has_ended(run)]:
                    self._active.remove(run)
                    self._finish(run)
                self._progress.status(self._status)
                self._record.refresh_page()
                interrupt.wait(POLL_S if self._active else 0.0)
            for run in self._active:
                run.child.kill()
                name = printable(run.cell.name, 200)
                self._progress.say(f"ended: {name}; it will run again when the suite is resumed")

    def _status(self) -> SuiteStatus:
        running = [RunningCell(run.cell, run.seconds()) for run in self._active]
        return SuiteStatus(self._record.suite, running, self._left_s())

    def _left_s(self) -> float:
        limit_s = self._settings.limit_s
        active_s = [max(0.0, run_s(self._options[run.cell.name]) - run.seconds()) for run in self._active]
        left_s = None if limit_s is None else limit_s - (time.monotonic() - self._began)
        jobs = max(self._settings.jobs, len(active_s))
        return estimate(self._options, self._waiting, jobs, left_s, active_s).seconds

    def _has_room(self) -> bool:
        """Return True if one more run can start. The first run always starts, and reports missing memory itself."""
        if not self._active:
            return True
        starting = sum(run.seconds() < STARTING_S for run in self._active)
        brokers = self._plan.options[self._waiting[0].name].brokers
        needed_mb = memory_mb(brokers) + MEMORY_MB * starting
        return len(self._active) < self._settings.jobs and free_memory_mb() >= needed_mb

    def _start_next(self, supervisor: Supervisor) -> None:
        cell = self._waiting.popleft()
        if self._settings.limit_s is not None:
            spent_s = time.monotonic() - self._began
            if spent_s + run_s(self._options[cell.name]) > self._settings.limit_s:
                self._record.update(structs.replace(cell, reason=NO_TIME))
                return
        self._record.clear(cell)
        child = self._spawn(cell, supervisor)
        cell = structs.replace(cell, started=datetime.now(UTC).isoformat(timespec="seconds"))
        self._record.update(cell)
        self._active.append(_ActiveRun(cell, child, time.monotonic()))
        self._progress.started(cell)

    def _spawn(self, cell: Cell, supervisor: Supervisor) -> Child:
        """Start the process of a cell, and send it the request through a pipe."""
        options = replace(
            self._plan.options[cell.name],
            master=self._settings.master,
            spark_conf=self._settings.spark_conf,
            store=str(self._record.folder / RUNS),
            name=cell.slug,
        )
        result = self._record.result_of(cell)
        request = CellRequest(options, cell.command, result, judge=self._check_each, explore=cell.explore)
        read_end, write_end = os.pipe()
        with os.fdopen(write_end, "wb", buffering=0) as pipe:
            try:
                child = supervisor.spawn(
                    self._settings.program,
                    name=f"the run of {cell.slug}",
                    log_file=self._record.log_of(cell),
                    stdin=read_end,
                )
            finally:
                os.close(read_end)
            with suppress(BrokenPipeError):  # the process has ended, and its log says why
                pipe.write(encode(request))
        return child

    def _has_ended(self, run: _ActiveRun) -> bool:
        if run.child.poll() is not None:
            return True
        if run.seconds() > self._plan.options[run.cell.name].time_limit_s + self._settings.most_overhead_s:
            run.child.kill()
            run.killed_after_s = run.seconds()
            return True
        return False

    def _finish(self, run: _ActiveRun) -> None:
        cell = self._outcome(structs.replace(run.cell, duration_s=round(run.seconds(), 1)), run)
        self._record.update(cell)
        self._progress.ended(cell)

    def _outcome(self, cell: Cell, run: _ActiveRun) -> Cell:
        folder, result = self._record.run_of(cell), CellResult.load(self._record.result_of(cell))
        if folder is not None:
            cell = outcome.ended(cell, self._record.folder, folder)
        if result is None:
            log = self._record.log_of(cell).relative_to(self._record.folder)
            if run.killed_after_s is not None:
                late = f"{duration(self._settings.most_overhead_s)} longer than its time limit"
                return outcome.failed(
                    cell, f"ended after {duration(run.killed_after_s)}: {late}; {log} says more"
                )
            return outcome.failed(cell, f"the run's {run.child.ending()}: {log} says more")
        if result.status != ExitStatus.VALID or folder is None:
            return outcome.failed(cell, result.error or "the run left no folder")
        if not self._check_each and not cell.explore:
            return cell
        verdict = self._record.verdict_of(cell) or FencepostError("its verdict cannot be read")
        return outcome.with_verdict(cell, verdict, self._plan.failures, self._today)
