"""What a user sees while a run goes on. It is told everything, and asks the cluster nothing."""

import sys
import time
from collections.abc import Callable
from typing import TextIO

from harness.runner.progress import Progress, Tick

LINE_EVERY_S = 5.0


def status_line(tick: Tick) -> str:
    """The state of a run in one line."""
    lag = "?" if tick.lag is None else f"{tick.lag:,}"
    left = (
        f"{tick.left_s:.0f} s left" if tick.left_s >= 0.5 else "over the time limit: faults are being healed"
    )
    on = f"faults on: {', '.join(tick.faults) or 'none'}"
    if not tick.told:
        return f"{left}, {tick.inputs:,} inputs, {on}"
    return (
        f"{left}, {tick.inputs:,} inputs, {tick.rate_tps:.0f} txn/s "
        f"({tick.committed:,} ok, {tick.aborted:,} aborted, {tick.info:,} info, {tick.fenced:,} fenced), "
        f"lag {lag}, {on}"
    )


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
        stream.write(f"[{self._clock() - self._began:6.1f} s] {text}\n")  # at once: several threads tell
        stream.flush()

    def tick(self, tick: Tick) -> None:
        """Tell it if the last one is old enough."""
        now = self._clock()
        if self._told is None or now - self._told >= LINE_EVERY_S:
            self._told = now
            self.say(status_line(tick))

    def close(self) -> None:
        """Nothing is open."""


def progress_for(stream: TextIO) -> Progress:
    """The one that fits the stream."""
    if stream.isatty():
        from fencepost.runs.live_progress import LiveProgress

        return LiveProgress(stream)
    return LineProgress(stream)
