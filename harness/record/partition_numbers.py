"""Numbers the partitions of a run from 0. Tables call this number `tp`.

The partitions in the run plan have their numbers before any process starts. Each process that writes `tp` gets the same
plan, so tables need no renumbering. Internal topics, and topics that a custom pipeline has created, are discovered
after the run. The process that writes the tables gives their partitions the next numbers.

A topic of the plan may get more partitions during the run. Every process computes the numbers of these from the plan.
"""

from collections.abc import Iterator, Mapping
from zlib import crc32

_HASHES = 2**30
_FIRST_ADDED = 1 << 20
"""The least number of a partition that a topic of the plan got during the run. A plan has fewer partitions."""
_MOST_PARTITIONS = 10_000
"""Above the number of partitions that a topic of a test can get. So all numbers are below 2^23 (`reports.story`)."""


def unplanned(topic: str, partition: int) -> int:
    """Return a negative `tp` for a partition that is not in the plan.

    It is a hash, so all processes compute the same number without agreeing on it. Different partitions have different
    numbers, so that inputs of two partitions are not taken for the same input. The table `partitions` has no row for
    it.
    """
    return -2 - crc32(f"{topic}/{partition}".encode()) % _HASHES


class PartitionIds:
    """Numbers partitions from 0: first the partitions of the plan, then each other partition at its first `id` call.

    A partition that a topic of the plan got during the run has a number above those of all planned partitions.

    Args:
        planned: The number of partitions of each topic or table, in the order of the plan.
    """

    def __init__(self, planned: Mapping[str, int] | None = None) -> None:
        self._ids: dict[tuple[str, int], int] = {}
        self._next = 0
        self._planned = {
            topic: (index, count) for index, (topic, count) in enumerate((planned or {}).items())
        }
        for topic, (_, count) in self._planned.items():
            for partition in range(count):
                self.id(topic, partition)

    def id(self, topic: str, partition: int) -> int:
        """Return the number of a partition. Assign the next number if it has none."""
        known = self._ids.get((topic, partition))
        if known is None:
            known = self._added(topic, partition)
            if known is None:
                known = self._next
                self._next += 1
            self._ids[topic, partition] = known
        return known

    def planned(self, topic: str, partition: int) -> int:
        """Return the number of a partition of a topic of the plan, or the negative number of `unplanned`."""
        known = self._ids.get((topic, partition))
        if known is None:
            known = self._added(topic, partition)
        return unplanned(topic, partition) if known is None else known

    def _added(self, topic: str, partition: int) -> int | None:
        """Return the number of a partition that a topic of the plan got later. None: the topic is not in the plan."""
        index, count = self._planned.get(topic, (0, 0))
        if not count <= partition < _MOST_PARTITIONS or topic not in self._planned:
            return None
        return _FIRST_ADDED + (partition - count) * len(self._planned) + index

    def __iter__(self) -> Iterator[tuple[int, str, int]]:
        """Yield number, topic and partition, ordered by number."""
        for (topic, partition), tp in sorted(self._ids.items(), key=lambda item: item[1]):
            yield tp, topic, partition

    def __len__(self) -> int:
        return len(self._ids)
