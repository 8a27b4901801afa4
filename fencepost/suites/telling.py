"""What a user sees while a suite goes on, on a stream that is no terminal: a line for each run that begins or ends, and
how the whole stands. On a terminal: `fencepost.suites.live`.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TextIO

from fencepost.progress import LineProgress
from harness.runner.progress import Progress
from harness.suite import Cell, State, Suite
from harness.telling.words import length, listed, printable

STATE_EVERY_S = 20.0


@dataclass(frozen=True)
class Going:
    """A run that goes on, and for how long it has."""

    cell: Cell
    seconds: float


@dataclass(frozen=True)
class Standing:
    """How the whole stands."""

    suite: Suite
    going: Sequence[Going]
    left_s: float  # until all runs are over, probably

    @property
    def done(self) -> int:
        """How many runs are over."""
        return sum(cell.state is not State.NOT_RUN for cell in self.suite.cells)

    def words(self) -> str:
        """In one line."""
        bad = sum(cell.state.bad for cell in self.suite.cells)
        names = [printable(one.cell.name, 80) for one in self.going]
        running = f"{len(names)} running ({listed(names)})" if names else "none running"
        return (
            f"{self.done} of {len(self.suite.cells)} runs are over, {bad} bad so far, {running}, about "
            f"{length(self.left_s)} left"
        )


class SuiteProgress(Progress, Protocol):
    """Where a suite tells how it goes."""

    def began(self, cell: Cell) -> None:
        """A run begins."""
        ...

    def over(self, cell: Cell, took_s: float) -> None:
        """A run is over."""
        ...

    def stand(self, standing: Callable[[], Standing]) -> None:
        """How the whole stands; asked as often as it is shown."""
        ...


def over_words(cell: Cell, took_s: float) -> str:
    """What came of a run, in a line."""
    told = f": {printable(cell.reason, 300)}" if cell.reason else ""
    word = "over" if cell.state is State.NOT_JUDGED else str(cell.state)
    return f"{word} after {length(took_s)}: {printable(cell.name, 200)}{told}"


class SuiteLines(LineProgress):
    """Lines on a stream; the standing of the whole after each run, and every twenty seconds."""

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(stream, clock)
        self._stood: float | None = None
        self._now = clock

    def began(self, cell: Cell) -> None:
        """A line."""
        self.say(f"started: {printable(cell.name, 200)}, seed {cell.seed}")

    def over(self, cell: Cell, took_s: float) -> None:
        """A line, and how the whole stands next."""
        self.say(over_words(cell, took_s))
        self._stood = None

    def stand(self, standing: Callable[[], Standing]) -> None:
        """A line, if the last one is long enough ago, or a run is over since."""
        at = self._now()
        if self._stood is None or at - self._stood >= STATE_EVERY_S:
            self._stood = at
            self.say(standing().words())


def progress_for(stream: TextIO) -> SuiteProgress:
    """The one that fits the stream."""
    if stream.isatty():
        from fencepost.suites.live import LiveSuite

        return LiveSuite(stream)
    return SuiteLines(stream)
