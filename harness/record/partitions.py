"""Dense numbers for the partitions of a run: what the tables call `tp`.

Every table of a run shares one `PartitionIds`, so that a partition has one number wherever it is
named; the table `partitions` is written last, when all names are known.
"""

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from harness.record.parquet_writer import open_parquet
from harness.record.schema import HISTORY


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


def write_partitions(
    names: PartitionIds, run: int, folder: Path, compacted: Mapping[str, bool], known: Collection[str]
) -> None:
    """Write the names of all partitions that any table of a run has, `log/` included. `compacted`: by topic; `known`:
    the pipeline's topics and tables: all others are internal.
    """
    with open_parquet(folder / "partitions.parquet", HISTORY["partitions"]) as sheet:
        for tp, topic, partition in names:
            sheet.append((run, tp, topic, partition, topic not in known, compacted.get(topic, False)))
