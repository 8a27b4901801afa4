"""Dense numbers for the partitions of a run: what the tables call `tp`.

Every table of a run shares one `PartitionIds`, so that a partition has one number wherever it is
named; the table `partitions` is written last, when all names are known.
"""

from collections.abc import Iterator


class PartitionIds:
    """Numbers partitions from 0, in the order in which they are first asked for."""

    def __init__(self) -> None:
        self._ids: dict[tuple[str, int], int] = {}

    def id(self, topic: str, partition: int) -> int:
        """The number of a partition; a new one if nobody has named it before."""
        return self._ids.setdefault((topic, partition), len(self._ids))

    def __iter__(self) -> Iterator[tuple[int, str, int]]:
        """Number, topic and partition, by number."""
        for (topic, partition), tp in self._ids.items():
            yield tp, topic, partition

    def __len__(self) -> int:
        return len(self._ids)
