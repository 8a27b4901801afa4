"""Measure how long the steps of a worker's loop take: its calls of the client, and its writes to the journal.

The rest is all other time: the transform, passing each record to the client, and Python between the calls. The first
batches are not counted, because the group is still forming and connections are being opened.
"""

import time
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

WARM_UP = 2
"""Batches that are not counted."""
CONSUMER = {"commit": "offsets"}
PRODUCER = {"flush": "flush", "send_offsets": "offsets", "commit": "commit"}
"""`CONSUMER` and `PRODUCER`: for each method of the client, the step that it belongs to."""


class Stopwatch:
    """Adds up the seconds of each step, from the end of the warm-up to the start of the last batch."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.begin()

    def begin(self) -> None:
        """Reset all counts for the next shift."""
        self._batches = 0
        self._spent: dict[str, float] = {}
        self._since_s = 0.0
        self._known: tuple[int, float, dict[str, float]] = (0, 0.0, {})

    def timed(self, step: str, act: Callable[..., T]) -> Callable[..., T]:
        """Wrap `act` so that its duration is added to a step."""

        def call(*arguments: Any, **named: Any) -> T:
            began_s = self._clock()
            try:
                return act(*arguments, **named)
            finally:
                self._spent[step] = self._spent.get(step, 0.0) + self._clock() - began_s

        return call

    def watch(self, part: object, calls: dict[str, str]) -> None:
        """Time the methods of an object that `calls` names, if it has them."""
        for name, step in calls.items():
            if hasattr(part, name):
                setattr(part, name, self.timed(step, getattr(part, name)))

    def spent(self, step: str) -> float:
        """Seconds that a step has taken since the warm-up."""
        return self._spent.get(step, 0.0)

    def batch_begins(self, spent_s: float) -> None:
        """Note that a poll returned records after `spent_s` seconds. The batch before ended when that poll began."""
        now_s = self._clock() - spent_s
        if self._batches <= WARM_UP:
            self._spent, self._since_s = {"poll": spent_s}, now_s
        else:
            before = {**self._spent, "poll": self._spent.get("poll", 0.0) - spent_s}
            self._known = (self._batches - WARM_UP, now_s - self._since_s, before)
        self._batches += 1

    def per_batch_ms(self) -> dict[str, float]:
        """The mean milliseconds of each step, and of the rest, per batch. Empty if there were too few batches."""
        batches, wall_s, spent = self._known
        if not batches:
            return {}
        steps = {name: 1000 * seconds / batches for name, seconds in spent.items()}
        return {**steps, "rest": max(0.0, 1000 * wall_s / batches - sum(steps.values()))}
