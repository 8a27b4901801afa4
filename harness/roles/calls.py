"""Remember which client call a worker is in, so that a call that never returns is reported by name."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Call:
    """One call of the client library. Calls are compared by identity."""

    name: str  # of librdkafka's function: send_offsets_to_transaction
    op: int
    since_ns: int  # start of the call, on the monotonic clock


class Calls:
    """The current client call of a worker. Another thread may read `now` at any time."""

    def __init__(self) -> None:
        self.now: Call | None = None

    def during(self, name: str, op: int, call: Callable[[], T]) -> T:
        """Make a call, with `now` set until it returns."""
        self.now = Call(name, op, time.monotonic_ns())
        try:
            return call()
        finally:
            self.now = None
