"""The call of its client that a worker is in: so that one that never returns is told, by name."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Call:
    """One call; no two are equal."""

    name: str  # as the library has it: send_offsets_to_transaction
    op: int
    since_ns: int  # on the monotonic clock


class Calls:
    """What a worker is waiting in. A thread beside it may look at `now` at any time."""

    def __init__(self) -> None:
        self.now: Call | None = None

    def during(self, name: str, op: int, act: Callable[[], T]) -> T:
        """Do it, and be in that call meanwhile."""
        self.now = Call(name, op, time.monotonic_ns())
        try:
            return act()
        finally:
            self.now = None
