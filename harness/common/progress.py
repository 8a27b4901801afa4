"""The progress of a run. A command implements `Progress` to show it."""

import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol, TextIO


@dataclass(frozen=True)
class ProgressSnapshot:
    """The state of a run at one moment. Counts are totals since the start of the run."""

    elapsed_s: float
    left_s: float  # until the time limit
    inputs: int
    committed: int  # transactions, as the next two
    aborted: int
    info: int
    fenced: int  # how often workers were fenced
    rate_tps: float  # committed transactions per second, over about the last second
    lag: int | None  # inputs that are not committed yet; None: not known
    faults: tuple[str, ...] = ()  # the active faults
    counts_known: bool = True  # False for a custom pipeline: the counts of transactions are then not known


class Progress(Protocol):
    """Shows the progress of a run."""

    def phase(self, name: str) -> None:
        """Show that a phase of the run begins."""
        ...

    def say(self, text: str) -> None:
        """Show a line that is not overwritten by later updates."""
        ...

    def update(self, snapshot: ProgressSnapshot) -> None:
        """Show the current state of the run."""
        ...

    def hidden(self) -> AbstractContextManager[None]:
        """Hide what later updates would overwrite, while something else prints to the same terminal."""
        ...

    def close(self) -> None:
        """End the output."""
        ...


LINE_EVERY_S = 5.0


def status_line(snapshot: ProgressSnapshot) -> str:
    """Format the state of a run as one line."""
    lag = "?" if snapshot.lag is None else f"{snapshot.lag:,}"
    left = (
        f"{snapshot.left_s:.0f} s left"
        if snapshot.left_s >= 0.5
        else "over the time limit: faults are being healed"
    )
    on = f"faults on: {', '.join(snapshot.faults) or 'none'}"
    if not snapshot.counts_known:
        return f"{left}, {snapshot.inputs:,} inputs, {on}"
    return (
        f"{left}, {snapshot.inputs:,} inputs, {snapshot.rate_tps:.0f} txn/s "
        f"({snapshot.committed:,} ok, {snapshot.aborted:,} aborted, {snapshot.info:,} info, "
        f"{snapshot.fenced:,} fenced), lag {lag}, {on}"
    )


class LineProgress:
    """Progress on a stream that is no terminal: a line for each phase, and the state every five seconds."""

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._began = clock()
        self._last_shown_s: float | None = None

    def phase(self, name: str) -> None:
        """Print the phase. The next state is then printed without delay."""
        self._last_shown_s = None
        self.say(name)

    def say(self, text: str) -> None:
        """Print a line, with the seconds since the command began."""
        stream = self._stream or sys.stderr
        # One write, because several threads print.
        stream.write(f"[{self._clock() - self._began:6.1f} s] {text}\n")
        stream.flush()

    def update(self, snapshot: ProgressSnapshot) -> None:
        """Print the state if the last one was printed long enough ago."""
        now = self._clock()
        if self._last_shown_s is None or now - self._last_shown_s >= LINE_EVERY_S:
            self._last_shown_s = now
            self.say(status_line(snapshot))

    def hidden(self) -> AbstractContextManager[None]:
        """Do nothing: no line is overwritten."""
        return nullcontext()

    def close(self) -> None:
        """Do nothing: there is nothing to close."""
