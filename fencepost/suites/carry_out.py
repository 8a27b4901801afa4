"""The runs of a suite: so many side by side as memory permits, each in a process of its own."""

import os
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime

from fencepost.suites import outcome, telling
from fencepost.suites.drawing import Index
from fencepost.suites.folder import RUNS, Book
from fencepost.suites.forecast import NO_TIME, Forecast
from fencepost.suites.foreseen import Foreseen
from fencepost.suites.one_cell import Ended, request
from fencepost.suites.telling import Standing, SuiteProgress
from harness.environment.doctor import MEMORY_MB, memory_mb
from harness.environment.resources import free_memory_mb
from harness.errors import ExitStatus, FencepostError
from harness.processes.child import Child
from harness.processes.spawn import Supervisor
from harness.runner.interrupt import Interrupt
from harness.settings.options import Options
from harness.suite import Cell
from harness.telling.words import length, printable

UP_AFTER_S = 45.0
"""Until then a run has not taken all the memory that it will."""
MOST_OVERHEAD_S = 1_200.0
"""A run that takes longer than this beside its time limit is ended."""
LOOK_EVERY_S = 0.2
PROGRAM = (sys.executable, "-P", "-m", "fencepost.suites.one_cell")


@dataclass(frozen=True)
class Conditions:
    """How the runs are carried out."""

    jobs: int  # runs side by side, at most
    judge_each: bool
    limit_s: float | None  # none begins that would probably not be over by then
    options: Mapping[str, Options]  # of each cell, by its name
    forecast: Forecast
    foreseen: Foreseen
    today: date
    program: Sequence[str] = PROGRAM


@dataclass
class Going:
    """A run that goes on."""

    cell: Cell
    child: Child
    began: float
    ended_after_s: float | None = None  # where the suite ended it, as it took too long


class Runs:
    """The runs that wait, go on, and are over."""

    def __init__(
        self,
        book: Book,
        waiting: Sequence[Cell],
        conditions: Conditions,
        supervisor: Supervisor,
        progress: SuiteProgress,
        index: Index,
    ) -> None:
        self._book = book
        self._index = index
        self._waiting = deque(waiting)
        self._going: list[Going] = []
        self._how = conditions
        self._supervisor = supervisor
        self._progress = progress
        self._began = time.monotonic()

    def carry_out(self, interrupt: Interrupt) -> None:
        """All of them, until the limit or an interruption; what is over stands in the book."""
        while (self._waiting or self._going) and not interrupt.came:
            while self._waiting and self._has_room():
                self._start_next()
            for one in [one for one in self._going if self._over(one)]:
                self._going.remove(one)
                self._finish(one)
            self._progress.stand(self._standing)
            self._index.keep_up(self._book.suite)
            interrupt.wait(LOOK_EVERY_S if self._going else 0.0)
        for one in self._going:
            one.child.kill()
            self._progress.say(
                f"ended: {printable(one.cell.name, 200)}; it will run again when the suite is resumed"
            )

    def _standing(self) -> Standing:
        now = time.monotonic()
        going = [telling.Going(one.cell, now - one.began) for one in self._going]
        return Standing(self._book.suite, going, self._left_s())

    def _has_room(self) -> bool:
        """Whether one more run may begin. The first may always: it says by itself what is missing."""
        if not self._going:
            return True
        coming = sum(time.monotonic() - one.began < UP_AFTER_S for one in self._going)
        needed_mb = memory_mb(self._how.options[self._waiting[0].name].brokers) + MEMORY_MB * coming
        return len(self._going) < self._how.jobs and free_memory_mb() >= needed_mb

    def _start_next(self) -> None:
        cell = self._waiting.popleft()
        if self._how.limit_s is not None:
            spent_s = time.monotonic() - self._began
            if spent_s + self._how.forecast.takes_s(cell) > self._how.limit_s:
                self._book.enter(replace(cell, reason=NO_TIME))
                return
        self._book.begin(cell)
        options = replace(self._how.options[cell.name], store=str(self._book.folder / RUNS), name=cell.slug)
        asked = request(options, cell.command, self._book.ended_of(cell), judge=self._how.judge_each)
        child = self._spawned(cell, asked)
        cell = replace(cell, started=datetime.now(UTC).isoformat(timespec="seconds"))
        self._book.enter(cell)  # it has a log now
        self._going.append(Going(cell, child, time.monotonic()))
        self._progress.began(cell)

    def _spawned(self, cell: Cell, asked: bytes) -> Child:
        """The process of a cell, which is told what to do by a pipe."""
        read_end, write_end = os.pipe()
        with os.fdopen(write_end, "wb", buffering=0) as pipe:
            try:
                child = self._supervisor.spawn(
                    self._how.program,
                    name=f"the run of {cell.slug}",
                    log_file=self._book.log_of(cell),
                    stdin=read_end,
                )
            finally:
                os.close(read_end)
            with suppress(BrokenPipeError):  # it has ended, and its log says why
                pipe.write(asked)
        return child

    def _over(self, one: Going) -> bool:
        if one.child.poll() is not None:
            return True
        most_s = self._how.options[one.cell.name].time_limit_s + MOST_OVERHEAD_S
        if time.monotonic() - one.began > most_s:
            one.child.kill()
            one.ended_after_s = time.monotonic() - one.began
            return True
        return False

    def _finish(self, one: Going) -> None:
        """Enter what came of a run."""
        took_s = time.monotonic() - one.began
        cell = self._came_of(replace(one.cell, duration_s=round(took_s, 1)), one)
        self._how.forecast.learn(cell, took_s)
        self._book.enter(cell)
        self._progress.over(cell, took_s)

    def _came_of(self, cell: Cell, one: Going) -> Cell:
        run, ended = self._book.run_of(cell), Ended.load(self._book.ended_of(cell))
        if run is not None:
            cell = outcome.over(cell, self._book.folder, run)
        if ended is None:
            log = self._book.log_of(cell).relative_to(self._book.folder)
            if one.ended_after_s is not None:
                over = f"{length(MOST_OVERHEAD_S)} longer than its time limit"
                return outcome.failed(
                    cell, f"ended after {length(one.ended_after_s)}: {over}; {log} says more"
                )
            return outcome.failed(cell, f"the run's {one.child.ending()}: {log} says more")
        if ended.status != ExitStatus.VALID or run is None:
            return outcome.failed(cell, ended.error or "the run left no folder")
        if not self._how.judge_each:
            return cell
        verdict = outcome.stored(cell, self._book.folder)
        answer = verdict or FencepostError("its verdict cannot be read")
        return outcome.judged(cell, answer, self._how.foreseen, self._how.today)

    def _left_s(self) -> float:
        """Until all runs are over, probably."""
        now = time.monotonic()
        forecast, limit_s = self._how.forecast, self._how.limit_s
        rest_s = [max(0.0, forecast.takes_s(one.cell) - (now - one.began)) for one in self._going]
        to_begin_s = None if limit_s is None else limit_s - (now - self._began)
        return forecast.outlook(self._waiting, max(self._how.jobs, len(rest_s)), to_begin_s, rest_s).seconds
