"""Keys that come and go: which partitions take sends now, and which are still to be read."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from harness.model.pipeline import TopicPartition

ACTIVE = 5
"""So many keys take sends at a time."""
BEHIND = 5
"""So many that have retired are still polled beside them."""
FULL_OFFSETS = 30
"""A key whose log is known to be so long retires; markers count."""


@dataclass
class Keys:
    """The keys, in the order in which they are used.

    All workers see the same logs, so they come to the same window, some a little later than others. Where all keys
    have retired the last ones go on.
    """

    places: Sequence[TopicPartition]
    _ends: dict[TopicPartition, int] = field(
        default_factory=dict
    )  # above the highest record that is known of

    def note_offset(self, place: TopicPartition, offset: int) -> None:
        """A record is known to stand there."""
        self._ends[place] = max(self._ends.get(place, 0), offset + 1)

    def active(self) -> list[TopicPartition]:
        """Those that take sends."""
        growing = [place for place in self.places if self._ends.get(place, 0) < FULL_OFFSETS]
        return growing[:ACTIVE] if len(growing) >= ACTIVE else list(self.places[-ACTIVE:])

    def window(self) -> list[TopicPartition]:
        """Those that take sends, and those that have just retired."""
        active = set(self.active())
        numbers = [n for n, place in enumerate(self.places) if place in active]
        return list(self.places[max(0, numbers[0] - BEHIND) : numbers[-1] + 1])
