"""What a user sees while a suite goes on: a line for each run that begins or ends, and how the whole stands."""

import time
from collections.abc import Callable, Sequence
from typing import TextIO

from fencepost.progress import LineProgress
from harness.suite import Cell, State, Suite
from harness.telling.words import listed, printable

STATE_EVERY_S = 20.0


def length(seconds: float) -> str:
    """A length of time for people: `45 s`, `12 min`, `1 h 05 min`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"


def standing(suite: Suite, going: Sequence[Cell], left_s: float) -> str:
    """How the whole stands, in one line."""
    done = sum(cell.state is not State.NOT_RUN for cell in suite.cells)
    bad = sum(cell.state.bad for cell in suite.cells)
    running = (
        f"{len(going)} running ({listed([printable(cell.name, 80) for cell in going])})"
        if going
        else "none running"
    )
    return f"{done} of {len(suite.cells)} runs are over, {bad} bad so far, {running}, about {length(left_s)} left"


class SuiteProgress(LineProgress):
    """Lines on a stream; the standing of the whole every twenty seconds."""

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(stream, clock)
        self._stood: float | None = None
        self._now = clock

    def stand(self, line: Callable[[], str], *, now: bool = False) -> None:
        """Tell how the whole stands, if the last time is long enough ago, or `now`."""
        at = self._now()
        if now or self._stood is None or at - self._stood >= STATE_EVERY_S:
            self._stood = at
            self.say(line())
