"""`FakePreload`: a `Preload` without a control file."""

import time

from harness.processes.preload import Preload


class FakePreload(Preload):
    """Keeps the changes of a clock and a disk. Each fsync of its process is delayed at once."""

    changed_calls = 0

    def __init__(self) -> None:
        self.env = {}
        self.disk_fails = False
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
        self.changed_calls += 1

    def fail_syncs(self) -> None:
        """Let the disk fail."""
        self.disk_fails = True

    def fill_disk(self) -> None:
        """Let the disk fail."""
        self.disk_fails = True

    def synced_bytes(self) -> dict[int, int]:
        """Return a file that is none of the broker's."""
        return {0: 0}

    def heal_disk(self) -> None:
        """Let the disk work again."""
        self.disk_fails = False
