"""The keys of the workload txn: which partitions take sends now, and which must still be read."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from harness.model.pipeline import TopicPartition

ACTIVE = 5
"""The number of keys that take sends at a time."""
BEHIND = 5
"""The number of retired keys that workers still poll."""
FULL_OFFSETS = 30
"""A key retires when its log is known to have this many offsets, markers included."""


@dataclass
class Keys:
    """The keys, in the order in which they are used.

    All workers read the same logs, so all reach the same window, some a little later than others. When all keys
    are retired, the last ones stay active.
    """

    topic_partitions: Sequence[TopicPartition]
    _ends: dict[TopicPartition, int] = field(
        default_factory=dict
    )  # the offset after the highest known record

    def note_offset(self, topic_partition: TopicPartition, offset: int) -> None:
        """Note that the log of a key has a record at this offset."""
        self._ends[topic_partition] = max(self._ends.get(topic_partition, 0), offset + 1)

    def active(self) -> list[TopicPartition]:
        """Return the keys that take sends."""
        growing = [
            topic_partition
            for topic_partition in self.topic_partitions
            if self._ends.get(topic_partition, 0) < FULL_OFFSETS
        ]
        return growing[:ACTIVE] if len(growing) >= ACTIVE else list(self.topic_partitions[-ACTIVE:])

    def window(self) -> list[TopicPartition]:
        """Return the keys that take sends and those that retired last."""
        active = set(self.active())
        numbers = [n for n, topic_partition in enumerate(self.topic_partitions) if topic_partition in active]
        return list(self.topic_partitions[max(0, numbers[0] - BEHIND) : numbers[-1] + 1])
