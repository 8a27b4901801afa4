"""A suite from its plan to its pages: the runs, then one job that judges them, then what is left in the folder."""

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path

from fencepost.checking import check
from fencepost.judges.lifetime import shared_judge
from fencepost.stores import Given
from fencepost.suites import known as failures
from fencepost.suites import outcome, past
from fencepost.suites.carry_out import Conditions, Runs
from fencepost.suites.drawing import Index, draw_pages
from fencepost.suites.folder import Book, earlier
from fencepost.suites.forecast import Forecast
from fencepost.suites.foreseen import Foreseen
from fencepost.suites.plan import Planned
from fencepost.suites.telling import SuiteProgress
from harness.errors import FencepostError
from harness.processes.guardian import sweep_leftovers
from harness.processes.spawn import Supervisor
from harness.runner.interrupt import Interrupt, Stage
from harness.suite import Cell, State, Suite
from harness.telling.words import several
from harness.verdict import Verdict

UNJUDGED = (State.NOT_RUN, State.NOT_JUDGED, State.FAILED)


@dataclass(frozen=True)
class How:
    """What the command says of carrying a suite out."""

    jobs: int
    limit_s: float | None
    master: str
    spark_conf: Mapping[str, str]


def conduct(book: Book, planned: Planned, how: How, progress: SuiteProgress) -> Suite:
    """Carry out what is left of a suite, judge it, and leave its pages.

    Returns it as it stands then. Raises KeyboardInterrupt where it is to stop at once, and `FencepostError` where
    the runs could not be judged: the record says how far it came, and `--resume` goes on from there.
    """
    store = book.folder.parent.parent
    suites = earlier(store, book.suite.name, book.suite.started, past.MOST - 1)
    today = datetime.now(UTC).date()
    index = Index(book.folder, suites)
    began, before_s = time.monotonic(), book.suite.took_s
    book.change(interrupted=False, ended=None)
    book.enter(*(_weighed_again(book, planned.foreseen, today)))
    with Interrupt() as interrupt, ExitStack() as stack:
        for left in sweep_leftovers():
            progress.say(f"ended what an earlier run had left: {left}")
        try:
            interrupt.stage = Stage.SUITE
            _run(book, planned, how, suites, today, interrupt, stack, progress, index)
            interrupt.stage = Stage.JUDGING
            _judge(book, planned.foreseen, how, today, progress, index)
        finally:
            now = datetime.now(UTC).isoformat(timespec="seconds")
            told = tuple(failures.remarks(planned.foreseen.known, book.suite.cells, today))
            took_s = round(before_s + time.monotonic() - began, 1)
            book.suite = past.compared(book.suite, suites)
            book.change(ended=now, interrupted=interrupt.came, took_s=took_s, remarks=told)
            draw_pages(book.folder, book.suite)
    return book.suite


def _weighed_again(book: Book, foreseen: Foreseen, today: date) -> list[Cell]:
    """The cells that were judged, weighed again by the suite file and the day. One that failed stays as it is."""
    cells = [cell for cell in book.suite.cells if cell.state not in UNJUDGED]
    there = [(cell, outcome.stored(cell, book.folder)) for cell in cells]
    return [
        outcome.failed(cell, "its verdict is gone, or cannot be read")
        if verdict is None
        else outcome.judged(cell, verdict, foreseen, today)
        for cell, verdict in there
    ]


def _run(
    book: Book,
    planned: Planned,
    how: How,
    suites: Sequence[Suite],
    today: date,
    interrupt: Interrupt,
    stack: ExitStack,
    progress: SuiteProgress,
    index: Index,
) -> None:
    """All runs that are not over."""
    waiting = [cell for cell in book.suite.cells if cell.state is State.NOT_RUN]
    if not waiting:
        return
    if how.limit_s is not None:
        waiting = past.least_lately(waiting, suites)
    each = book.suite.judge == "each"
    if each:
        stack.enter_context(shared_judge())
    supervisor = stack.enter_context(Supervisor())
    conditions = Conditions(
        jobs=how.jobs,
        judge_each=each,
        limit_s=how.limit_s,
        options={
            name: replace(options, master=how.master, spark_conf=how.spark_conf)
            for name, options in planned.options.items()
        },
        forecast=Forecast(planned.options, past.overheads(suites), book.suite.cells),
        foreseen=planned.foreseen,
        today=today,
    )
    Runs(book, waiting, conditions, supervisor, progress, index).carry_out(interrupt)


def _judge(
    book: Book,
    foreseen: Foreseen,
    how: How,
    today: date,
    progress: SuiteProgress,
    index: Index,
) -> None:
    """All runs that are over and have no verdict, in one job."""
    cells = [cell for cell in book.suite.cells if cell.state is State.NOT_JUDGED and cell.run]
    if not cells:
        return
    folders = [book.folder / str(cell.run) for cell in cells]
    progress.say(f"judging {several(len(cells), 'run')} together")
    began = time.monotonic()

    def found(n: int, answer: Verdict | FencepostError) -> None:
        book.enter(outcome.judged(cells[n], answer, foreseen, today))
        index.keep_up(book.suite)

    check(
        [Given(str(folder), folder) for folder in folders],
        allow=frozenset(),
        master=how.master,
        spark_conf=how.spark_conf,
        progress=progress,
        tell=lambda answers: None,
        found=found,
    )
    book.change(judging_s=round(book.suite.judging_s + time.monotonic() - began, 1))


def repeat_words(folder: Path, more: str = "") -> str:
    """The command that goes on with a suite, with the options that hold for one command."""
    return f"fencepost suite --resume {folder}{more}"
