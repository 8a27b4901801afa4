"""`FakePreload`: a `Preload` without a control file."""

import time

from harness.processes.preload import Preload


class FakePreload(Preload):
    """Keeps the changes of a clock and a disk. Each fsync of its process is delayed at once."""

    def __init__(self) -> None:
        self.env = {}
        self.disk_fails = False
        self.failed_calls = 0
        self.delayed: tuple[int, float] = (0, 0.0)
        self._clock = (0.0, 1.0, time.monotonic())

    def set_clock(self, ahead_s: float = 0.0, rate: float = 1.0) -> None:
        """Keep the clock."""
        self._clock = (ahead_s, rate, time.monotonic())

    def ahead_s(self) -> float:
        """Return how far the clock is ahead of the clock of this machine now."""
        ahead_s, rate, since_s = self._clock
        return ahead_s + (rate - 1) * (time.monotonic() - since_s)

    def delay_syncs(self, delay_s: float) -> None:
        """Count one call."""
        if delay_s:
            self.delayed = (self.delayed[0] + 1, self.delayed[1] + delay_s)

    @property
    def delayed_syncs(self) -> tuple[int, float]:
        """How many syncs were delayed, and how long."""
        return self.delayed

    def fail_syncs(self, failing: bool) -> None:
        """Let the disk fail, or work again."""
        self.disk_fails = failing

    def fail_writes(self, failing: bool) -> None:
        """Let the disk fail, or work again."""
        self.disk_fails = failing

    @property
    def failed_syncs(self) -> int:
        """How many calls failed."""
        return self.failed_calls

    @property
    def failed_writes(self) -> int:
        """How many calls failed."""
        return self.failed_calls

    def synced_bytes(self) -> dict[int, int]:
        """Return a file that is none of the broker's."""
        return {0: 0}
