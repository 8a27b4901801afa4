"""Where the time of a worker's loop goes: its calls of the client, and its writes to the journal, timed one by one.

What is not timed is the rest: the transform, handing each record to the client, Python between the calls. The first
batches are left out: the group is still forming, and connections are being made.
"""

import time
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

WARM_UP = 2
"""Batches that are not timed."""
CONSUMER = {"commit": "offsets"}
PRODUCER = {"flush": "flush", "send_offsets": "offsets", "commit": "commit"}
"""By the client's call: the step that it is."""


class Stopwatch:
    """Seconds by step, from the end of the warm-up to the last batch that began."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.begin()

    def begin(self) -> None:
        """Begin anew, for the next shift."""
        self._batches = 0
        self._spent: dict[str, float] = {}
        self._since_s = 0.0
        self._known: tuple[int, float, dict[str, float]] = (0, 0.0, {})

    def timed(self, step: str, act: Callable[..., T]) -> Callable[..., T]:
        """The same call, with its time added to a step."""

        def call(*arguments: Any, **named: Any) -> T:
            began_s = self._clock()
            try:
                return act(*arguments, **named)
            finally:
                self._spent[step] = self._spent.get(step, 0.0) + self._clock() - began_s

        return call

    def watch(self, part: object, calls: dict[str, str]) -> None:
        """Time those calls of an object that it has."""
        for name, step in calls.items():
            if hasattr(part, name):
                setattr(part, name, self.timed(step, getattr(part, name)))

    def spent(self, step: str) -> float:
        """Seconds that a step took since the warm-up."""
        return self._spent.get(step, 0.0)

    def batch_begins(self, spent_s: float) -> None:
        """A poll has given records, and took so long: the batch before is complete with the time until then."""
        now_s = self._clock() - spent_s
        if self._batches <= WARM_UP:
            self._spent, self._since_s = {"poll": spent_s}, now_s
        else:
            before = {**self._spent, "poll": self._spent.get("poll", 0.0) - spent_s}
            self._known = (self._batches - WARM_UP, now_s - self._since_s, before)
        self._batches += 1

    def per_batch_ms(self) -> dict[str, float]:
        """Milliseconds of each step in a batch, and of the rest; {} where there were too few batches."""
        batches, wall_s, spent = self._known
        if not batches:
            return {}
        steps = {name: 1000 * seconds / batches for name, seconds in spent.items()}
        return {**steps, "rest": max(0.0, 1000 * wall_s / batches - sum(steps.values()))}
