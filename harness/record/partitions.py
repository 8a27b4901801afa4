"""Numbers the partitions of a run from 0. Tables call this number `tp`.

The partitions in the run plan have their numbers before any process starts. Each process that writes `tp` gets the same
plan, so tables need no renumbering. Internal topics, and topics that a custom pipeline has created, are discovered
after the run. The process that writes the tables gives their partitions the next numbers.
"""

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from zlib import crc32

from harness.record.parquet_writer import open_parquet
from harness.record.schema import HISTORY

_HASHES = 2**30


def unplanned(topic: str, partition: int) -> int:
    """Return a negative `tp` for a partition that is not in the plan.

    It is a hash, so all processes compute the same number without agreeing on it. Different partitions have different
    numbers, so that inputs of two partitions are not taken for the same input. The table `partitions` has no row for
    it.
    """
    return -2 - crc32(f"{topic}/{partition}".encode()) % _HASHES


class PartitionIds:
    """Numbers partitions from 0: first the partitions of the plan, then each other partition at its first `id` call.

    Args:
        planned: The number of partitions of each topic or table, in the order of the plan.
    """

    def __init__(self, planned: Mapping[str, int] | None = None) -> None:
        self._ids: dict[tuple[str, int], int] = {}
        for topic, count in (planned or {}).items():
            for partition in range(count):
                self.id(topic, partition)

    def id(self, topic: str, partition: int) -> int:
        """Return the number of a partition. Assign the next number if it has none."""
        return self._ids.setdefault((topic, partition), len(self._ids))

    def planned(self, topic: str, partition: int) -> int:
        """Return the number of a partition. If it has none, return the negative number of `unplanned`."""
        known = self._ids.get((topic, partition))
        return unplanned(topic, partition) if known is None else known

    def __iter__(self) -> Iterator[tuple[int, str, int]]:
        """Yield number, topic and partition, ordered by number."""
        for (topic, partition), tp in self._ids.items():
            yield tp, topic, partition

    def __len__(self) -> int:
        return len(self._ids)


def write_partitions(
    names: PartitionIds, run: int, folder: Path, compacted: Mapping[str, bool], known: Collection[str]
) -> None:
    """Write the table `partitions`.

    Args:
        names: The partitions of the plan, and all other partitions in tables of `history/` or `log/`.
        run: The number of the run.
        folder: The folder `history` of the run.
        compacted: For each topic, whether it is compacted.
        known: The topics and tables of the pipeline. All other topics are internal.
    """
    with open_parquet(folder / "partitions.parquet", HISTORY["partitions"]) as table:
        for tp, topic, partition in names:
            table.append((run, tp, topic, partition, topic not in known, compacted.get(topic, False)))
