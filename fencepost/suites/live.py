"""A suite on a terminal: what needs a look above, and one block below that is redrawn."""

import time
from collections.abc import Callable
from typing import TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from fencepost.suites.telling import Standing, over_words
from harness.runner.progress import Tick
from harness.suite import Cell, State
from harness.telling.words import length, printable

MOST_RUNNING = 8
"""Runs that go on, each in a line of the block; of the others the number is told."""
COLOURS = {
    State.VALID: "green",
    State.CAUGHT: "green",
    State.KNOWN: "yellow",
    State.INVALID: "bold red",
    State.MISSED: "bold red",
    State.UNKNOWN: "magenta",
    State.FAILED: "bold red",
}


class LiveSuite:
    """Redraws itself a few times a second, until it is closed."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()
        self._phase = ""
        self._standing: Standing | None = None
        self._asked = 0.0  # when it was told how the whole stands
        self._live = Live(
            console=Console(file=stream),
            get_renderable=self._draw,
            refresh_per_second=4,
            transient=True,
            redirect_stdout=False,  # that is for what comes of it
        )
        self._live.start()

    def phase(self, name: str) -> None:
        """Of the judging; the runs are over by then."""
        self._phase = name

    def say(self, text: str) -> None:
        """A line that stays, above what is redrawn."""
        self._live.console.print(Text(text))

    def tick(self, tick: Tick) -> None:
        """Of a run; a suite's are processes of their own, which tell nothing here."""

    def began(self, cell: Cell) -> None:
        """The block has it."""

    def over(self, cell: Cell, took_s: float) -> None:
        """A line that stays, if somebody has to look at it."""
        if cell.state.bad:
            self._live.console.print(Text(over_words(cell, took_s), style=COLOURS[cell.state]))

    def stand(self, standing: Callable[[], Standing]) -> None:
        """Shown at the next redrawing."""
        self._standing, self._asked = standing(), self._clock()

    def close(self) -> None:
        """Stop redrawing, and give the terminal back."""
        self._live.stop()

    def _draw(self) -> Group:
        head = Text(f"{length(self._clock() - self._began):>10}  {self._phase or 'runs'}", style="bold")
        if self._standing is None:
            return Group(head)
        return Group(head, _states(self._standing), *([] if self._phase else [self._running(self._standing)]))

    def _running(self, standing: Standing) -> Table:
        """Each run that goes on, with how long it has."""
        table = Table.grid(padding=(0, 2))
        table.add_column(justify="right", style="dim")
        table.add_column(no_wrap=True, overflow="ellipsis")
        since_s = self._clock() - self._asked
        for one in standing.going[:MOST_RUNNING]:
            table.add_row(length(one.seconds + since_s), printable(one.cell.name, 200))
        if (more := len(standing.going) - MOST_RUNNING) > 0:
            table.add_row("", f"and {more} more")
        return table


def _states(standing: Standing) -> Table:
    """How many are over, how much is left, and how many are in each state."""
    total, done = len(standing.suite.cells), standing.done
    line = Table.grid(padding=(0, 2))
    line.add_row(
        ProgressBar(total=max(total, 1), completed=done, width=40),
        f"{done} of {total} runs, about {length(standing.left_s)} left",
    )
    counts = Text()
    for state, count in standing.suite.counts().items():
        if count and state is not State.NOT_RUN:
            counts.append(f"{count} {state}  ", style=COLOURS.get(state, "dim"))
    table = Table.grid()
    table.add_row(line)
    table.add_row(counts)
    return table
