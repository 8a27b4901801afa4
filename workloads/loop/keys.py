"""The keys of the workload txn: the partitions to which workers send now, and those that they must still read."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from harness.model.pipeline import TopicPartition

ACTIVE_KEYS = 5
"""The number of keys to which workers send at a time."""
RETIRED_KEYS = 5
"""The number of retired keys that workers still poll."""
FULL_OFFSETS = 30
"""A key retires when its log is known to have this many offsets, markers included."""


@dataclass
class Keys:
    """The keys, in the order in which they are used.

    All workers read the same logs, so all workers get the same window, some of them a little later. When all keys are
    retired, the last ones stay active.
    """

    topic_partitions: Sequence[TopicPartition]
    _ends: dict[TopicPartition, int] = field(
        default_factory=dict
    )  # the offset after the highest known record

    def note_offset(self, topic_partition: TopicPartition, offset: int) -> None:
        """Note that the log of a key has a record at this offset."""
        self._ends[topic_partition] = max(self._ends.get(topic_partition, 0), offset + 1)

    def active(self) -> list[TopicPartition]:
        """Return the keys to which workers send now."""
        growing = [
            topic_partition
            for topic_partition in self.topic_partitions
            if self._ends.get(topic_partition, 0) < FULL_OFFSETS
        ]
        return (
            growing[:ACTIVE_KEYS]
            if len(growing) >= ACTIVE_KEYS
            else list(self.topic_partitions[-ACTIVE_KEYS:])
        )

    def window(self) -> list[TopicPartition]:
        """Return the active keys, and those that retired last."""
        active = set(self.active())
        numbers = [n for n, topic_partition in enumerate(self.topic_partitions) if topic_partition in active]
        return list(self.topic_partitions[max(0, numbers[0] - RETIRED_KEYS) : numbers[-1] + 1])
