"""Progress of a run and of a suite, redrawn on a terminal. On other streams a suite prints lines."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Protocol, TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from harness.common.progress import LineProgress, Progress, ProgressSnapshot
from harness.common.wording import duration, join_words, printable
from harness.results.suite import Cell, CellState, Suite

STATUS_EVERY_S = 20.0
MOST_RUNNING = 8
"""Maximum number of runs with a line in the block on a terminal. The others are only counted."""
COLOURS = {
    CellState.VALID: "green",
    CellState.CAUGHT: "green",
    CellState.KNOWN: "yellow",
    CellState.INVALID: "bold red",
    CellState.MISSED: "bold red",
    CellState.UNKNOWN: "magenta",
    CellState.FAILED: "bold red",
}


class LiveProgress:
    """Redraws the block four times a second until it is closed."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._phase: tuple[str, float] | None = None
        self._snapshot: ProgressSnapshot | None = None
        self._live = Live(
            console=Console(file=stream),
            get_renderable=self._draw,
            refresh_per_second=4,
            transient=True,
            redirect_stdout=False,  # standard output is for the verdict
        )
        self._live.start()

    def phase(self, name: str) -> None:
        """Begin a phase. Print a line with the duration of the one before."""
        self._finish()
        self._phase = (name, self._clock())

    def say(self, text: str) -> None:
        """Print a line above the block."""
        self._live.console.print(Text(text))

    def update(self, snapshot: ProgressSnapshot) -> None:
        """Show this state when the block is redrawn."""
        self._snapshot = snapshot

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Remove the block, and draw it again afterwards."""
        self._live.stop()
        try:
            yield
        finally:
            self._live.start()

    def close(self) -> None:
        """Remove the block and restore the terminal."""
        self._finish()
        self._live.stop()

    def _finish(self) -> None:
        phase, self._phase, self._snapshot = self._phase, None, None
        if phase is not None:
            name, began = phase
            self.say(f"{self._clock() - began:6.1f} s  {name}")

    def _draw(self) -> Group:
        if self._phase is None:
            return Group()
        name, began = self._phase
        head = Text(f"{self._clock() - began:6.1f} s  {name}", style="bold")
        return Group(head, _state(self._snapshot)) if self._snapshot else Group(head)


def _state(snapshot: ProgressSnapshot) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(justify="right", style="dim")
    table.add_column()
    table.add_row("left", _time(snapshot))
    table.add_row("inputs", f"{snapshot.inputs:,}")
    transactions = Text(
        f"{snapshot.rate_tps:,.0f} a second: {snapshot.committed:,} ok, {snapshot.aborted:,} aborted, "
    )
    transactions.append(
        f"{snapshot.info:,} info, {snapshot.fenced:,} fenced",
        style="yellow" if snapshot.info or snapshot.fenced else "",
    )
    if snapshot.counts_known:
        table.add_row("transactions", transactions)
        table.add_row("lag", "not known" if snapshot.lag is None else f"{snapshot.lag:,} inputs")
    faults = (
        Text("\n".join(snapshot.faults), style="bold red") if snapshot.faults else Text("none", style="green")
    )
    table.add_row("faults on", faults)
    return table


def _time(snapshot: ProgressSnapshot) -> Table:
    total = max(snapshot.elapsed_s + snapshot.left_s, 1e-9)
    line = Table.grid(padding=(0, 1))
    line.add_row(
        f"{snapshot.left_s:4.0f} s", ProgressBar(total=total, completed=snapshot.elapsed_s, width=40)
    )
    return line


@dataclass(frozen=True)
class RunningCell:
    """A cell whose run is active, and the seconds since its start."""

    cell: Cell
    seconds: float


@dataclass(frozen=True)
class SuiteStatus:
    """The state of the whole suite at one moment."""

    suite: Suite
    running: Sequence[RunningCell]
    left_s: float  # estimated time until the last run ends

    @property
    def done(self) -> int:
        """How many runs have ended."""
        return sum(cell.state is not CellState.NOT_RUN for cell in self.suite.cells)

    def line(self) -> str:
        """The status in one line."""
        bad = sum(cell.state.bad for cell in self.suite.cells)
        names = [printable(active.cell.name, 80) for active in self.running]
        running = f"{len(names)} running ({join_words(names)})" if names else "none running"
        return (
            f"{self.done} of {len(self.suite.cells)} runs have ended, {bad} bad so far, {running}, about "
            f"{duration(self.left_s)} left"
        )


class SuiteProgress(Progress, Protocol):
    """Where a suite reports its progress."""

    def started(self, cell: Cell) -> None:
        """A run has started."""
        ...

    def ended(self, cell: Cell) -> None:
        """A run has ended, after `cell.duration_s`."""
        ...

    def status(self, status: Callable[[], SuiteStatus]) -> None:
        """The status may have changed. `status` is called only if it is shown."""
        ...


def suite_progress_for(stream: TextIO) -> SuiteProgress:
    """The progress that fits the stream."""
    return TerminalProgress(stream) if stream.isatty() else SuiteLines(stream)


def _outcome(cell: Cell) -> str:
    reason = f": {printable(cell.reason, 300)}" if cell.reason else ""
    word = "ended" if cell.state is CellState.NOT_CHECKED else str(cell.state)
    return f"{word} after {duration(cell.duration_s or 0.0)}: {printable(cell.name, 200)}{reason}"


class SuiteLines(LineProgress):
    """A line for each run that starts or ends. The status follows each run that ends, and every twenty seconds."""

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(stream, clock)
        self._last_status: float | None = None
        self._now = clock

    def started(self, cell: Cell) -> None:
        """Print a line."""
        self.say(f"started: {printable(cell.name, 200)}, seed {cell.seed}")

    def ended(self, cell: Cell) -> None:
        """Print a line; the status follows."""
        self.say(_outcome(cell))
        self._last_status = None

    def status(self, status: Callable[[], SuiteStatus]) -> None:
        """Print the status if it is due."""
        now = self._now()
        if self._last_status is None or now - self._last_status >= STATUS_EVERY_S:
            self._last_status = now
            self.say(status().line())


class TerminalProgress:
    """A block with the running cells, which is redrawn four times a second. Above it, a line for each bad run."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()
        self._phase = ""
        self._status: SuiteStatus | None = None
        self._status_at = 0.0
        self._live = Live(
            console=Console(file=stream),
            get_renderable=self._draw,
            refresh_per_second=4,
            transient=True,
            redirect_stdout=False,  # standard output is for the result
        )
        self._live.start()

    def phase(self, name: str) -> None:
        """Show a phase of the check. No run is active then."""
        self._phase = name

    def say(self, text: str) -> None:
        """Print a line above the block."""
        self._live.console.print(Text(text))

    def update(self, snapshot: ProgressSnapshot) -> None:
        """Ignore the state of a single run, because the runs are other processes."""

    def started(self, cell: Cell) -> None:
        """Print nothing, because the block shows the cell."""

    def ended(self, cell: Cell) -> None:
        """Print a line if the cell is bad."""
        if cell.state.bad:
            self._live.console.print(Text(_outcome(cell), style=COLOURS[cell.state]))

    def status(self, status: Callable[[], SuiteStatus]) -> None:
        """Show the status when the block is redrawn."""
        self._status, self._status_at = status(), self._clock()

    def hidden(self) -> AbstractContextManager[None]:
        """Do nothing: a suite prints its result after the block was closed."""
        return nullcontext()

    def close(self) -> None:
        """Remove the block, and restore the terminal."""
        self._live.stop()

    def _draw(self) -> Group:
        head = Text(f"{duration(self._clock() - self._began):>10}  {self._phase or 'runs'}", style="bold")
        if self._status is None:
            return Group(head)
        return Group(head, _counts(self._status), *([] if self._phase else [self._running(self._status)]))

    def _running(self, status: SuiteStatus) -> Table:
        table = Table.grid(padding=(0, 2))
        table.add_column(justify="right", style="dim")
        table.add_column(no_wrap=True, overflow="ellipsis")
        since_s = self._clock() - self._status_at
        for active in status.running[:MOST_RUNNING]:
            table.add_row(duration(active.seconds + since_s), printable(active.cell.name, 200))
        if (more := len(status.running) - MOST_RUNNING) > 0:
            table.add_row("", f"and {more} more")
        return table


def _counts(status: SuiteStatus) -> Table:
    """A progress bar, the estimated time, and the number of cells in each state."""
    total, done = len(status.suite.cells), status.done
    line = Table.grid(padding=(0, 2))
    line.add_row(
        ProgressBar(total=max(total, 1), completed=done, width=40),
        f"{done} of {total} runs, about {duration(status.left_s)} left",
    )
    counts = Text()
    for state, count in status.suite.counts.items():
        if count and state is not CellState.NOT_RUN:
            counts.append(f"{count} {state}  ", style=COLOURS.get(state, "dim"))
    table = Table.grid()
    table.add_row(line)
    table.add_row(counts)
    return table
