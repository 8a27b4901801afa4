"""A history whose markers are late, so that other producers write between a record and its marker."""

from random import Random

from tests.support.histories import History
from tests.support.stored_tables import Row

Marker = tuple[str, int, str, int]  # topic, producer id, type, epoch


class LateMarkers(History):
    """Delays every marker for a random time, but not beyond the next record of its producer."""

    def __init__(self, rng: Random, **options: object) -> None:
        super().__init__(**options)  # type: ignore[arg-type]
        self.rng = rng
        self.patience = rng.choice([0.0, 0.3, 0.9])  # the probability that a marker waits once more
        self.waiting: list[Marker] = []

    def append(self, topic: str, value: str | None, pid: int = -1, epoch: int = 0, **more: object) -> int:
        for marker in list(self.waiting):
            if marker[1] == pid or self.rng.random() > self.patience:
                self.arrive(marker)
        return super().append(topic, value, pid, epoch, **more)

    def append_marker(self, topic: str, pid: int, marker: str, epoch: int = 0, ms: int | None = None) -> int:
        """Append the marker later. The returned offset is -1, because it is not known yet."""
        self.waiting.append((topic, pid, marker, epoch))
        return -1

    def mark_now(self, topic: str, pid: int, marker: str, epoch: int = 0) -> int:
        """Append a marker immediately and return its offset."""
        self.settle(topic)
        return super().append_marker(topic, pid, marker, epoch)

    def arrive(self, marker: Marker) -> None:
        if marker in self.waiting:
            self.waiting.remove(marker)
            super().append_marker(*marker)

    def settle(self, topic: str | None = None) -> None:
        """Append all waiting markers of the topic, or of all topics."""
        for marker in list(self.waiting):
            if topic in (None, marker[0]):
                self.arrive(marker)

    def make(self) -> dict[str, list[Row]]:
        self.settle()
        return super().make()
