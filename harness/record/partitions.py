"""Dense numbers for the partitions of a run: what the tables call `tp`.

The plan of a run numbers the partitions that it names, before any process starts. Each process that writes `tp` is
given the same plan, so no table has to be renumbered. Internal topics, and topics that a user's program made, are found
at the end. The process that writes the tables numbers them after those of the plan.
"""

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from harness.record.parquet_writer import open_parquet
from harness.record.schema import HISTORY

UNPLANNED = -1
"""What a process that must not number partitions itself writes for each that the plan does not name. The table
`partitions` has no row for it."""


class PartitionIds:
    """Numbers partitions from 0: first those of the plan, then others in the order in which they are first asked for.

    Args:
        planned: By topic or table, in the order of the plan, how many partitions it has.
    """

    def __init__(self, planned: Mapping[str, int] | None = None) -> None:
        self._ids: dict[tuple[str, int], int] = {}
        for topic, count in (planned or {}).items():
            for partition in range(count):
                self.id(topic, partition)

    def id(self, topic: str, partition: int) -> int:
        """The number of a partition; a new one if it has none yet."""
        return self._ids.setdefault((topic, partition), len(self._ids))

    def planned(self, topic: str, partition: int) -> int:
        """The number of a partition, or `UNPLANNED` if it has none."""
        return self._ids.get((topic, partition), UNPLANNED)

    def __iter__(self) -> Iterator[tuple[int, str, int]]:
        """Number, topic and partition, by number."""
        for (topic, partition), tp in self._ids.items():
            yield tp, topic, partition

    def __len__(self) -> int:
        return len(self._ids)


def write_partitions(
    names: PartitionIds, run: int, folder: Path, compacted: Mapping[str, bool], known: Collection[str]
) -> None:
    """Write the table `partitions`.

    Args:
        names: Every partition of the plan, and every other that any table names, `log/` included.
        run: The run's number.
        folder: The run's folder `history`.
        compacted: By topic, whether it is compacted.
        known: The pipeline's topics and tables. All others are internal.
    """
    with open_parquet(folder / "partitions.parquet", HISTORY["partitions"]) as sheet:
        for tp, topic, partition in names:
            sheet.append((run, tp, topic, partition, topic not in known, compacted.get(topic, False)))
