"""What a user sees while a run goes on. It is told everything, and asks the cluster nothing."""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TextIO

LINE_EVERY_S = 5.0


@dataclass(frozen=True)
class Tick:
    """The state of a run at one moment; counts since it began."""

    elapsed_s: float
    left_s: float
    inputs: int
    committed: int
    aborted: int
    info: int
    fenced: int
    rate_tps: float  # transactions that ended, a second, lately
    lag: int | None  # inputs that no commit has reached; None: not known
    faults: tuple[str, ...]  # those that are on

    def words(self) -> str:
        """One line of it."""
        lag = "?" if self.lag is None else f"{self.lag:,}"
        faults = ", ".join(self.faults) or "none"
        return (
            f"{self.left_s:.0f} s left, {self.inputs:,} inputs, {self.rate_tps:.0f} txn/s "
            f"({self.committed:,} ok, {self.aborted:,} aborted, {self.info:,} info, {self.fenced:,} fenced), "
            f"lag {lag}, faults on: {faults}"
        )


class Progress(Protocol):
    """Where a run tells how it is getting on."""

    def phase(self, name: str) -> None:
        """A new part of the run begins, and the one before it has ended."""
        ...

    def say(self, text: str) -> None:
        """One line that stays."""
        ...

    def tick(self, tick: Tick) -> None:
        """How things stand; as often as one likes."""
        ...

    def close(self) -> None:
        """The run is over; idempotent."""
        ...


class LineProgress:
    """Lines on a stream that is no terminal: each phase, and every five seconds how things stand."""

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._began = clock()
        self._told: float | None = None

    def phase(self, name: str) -> None:
        """Tell it, and the next tick as soon as it comes."""
        self._told = None
        self.say(name)

    def say(self, text: str) -> None:
        """A line, after the seconds since the command began."""
        stream = self._stream or sys.stderr
        print(f"[{self._clock() - self._began:6.1f} s] {text}", file=stream, flush=True)

    def tick(self, tick: Tick) -> None:
        """Tell it if the last one is old enough."""
        now = self._clock()
        if self._told is None or now - self._told >= LINE_EVERY_S:
            self._told = now
            self.say(tick.words())

    def close(self) -> None:
        """Nothing is open."""


def progress_for(stream: TextIO) -> Progress:
    """The one that fits the stream."""
    if stream.isatty():
        from fencepost.live import LiveProgress

        return LiveProgress(stream)
    return LineProgress(stream)
