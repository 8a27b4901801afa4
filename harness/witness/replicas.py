"""The partitions' folders in a broker's data folder, and what Kafka's own notes say of them.

`replication-offset-checkpoint` has the high watermarks, `log-start-offset-checkpoint` the log starts
that are not a segment's first offset, `partition.metadata` in each folder the topic's id. Kafka
replaces each by rename, so none is ever half written. It writes the high watermarks every five
seconds and at a clean stop: of a broker that was killed they are a lower bound.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.common.errors import EnvironmentFailure
from harness.witness.segments import LogBatch, ReplicaDamage, read_log, segment_files

_FOLDER = re.compile(r"(.+)-(\d+)")  # others end in -delete, -future or -stray


@dataclass(frozen=True)
class ReplicaSource:
    """A broker, and the folder in which its partitions' folders lie."""

    broker: int
    data_dir: Path


class Replica:
    """One broker's copy of one partition; `log_end` and `damage` hold once it has been read."""

    def __init__(self, broker: int, topic: str, partition: int, folder: Path) -> None:
        self.broker = broker
        self.topic = topic
        self.partition = partition
        self.damage = ReplicaDamage()
        self.high_watermark: int | None = None  # null: Kafka has not written one
        self._folder = folder
        bases = [int(path.stem) for path in segment_files(folder)]
        self.log_start = bases[0] if bases else 0
        self.log_end = bases[-1] if bases else 0

    def last_epoch_and_end(self) -> tuple[int, int]:
        """The leader epoch of the last batch (-1: there is none) and the log end, by a reading of its own."""
        epoch, end = -1, self.log_end
        for batch in read_log(self._folder, ReplicaDamage()):
            epoch, end = batch.leader_epoch, max(end, batch.last_offset + 1)
        return epoch, end

    def read(self) -> Iterator[LogBatch]:
        """The batches, in order, also those below the log start that are still in the file."""
        for batch in read_log(self._folder, self.damage):
            self.log_end = max(self.log_end, batch.last_offset + 1)
            yield batch

    def topic_id(self) -> str | None:
        """Which topic of this name it is; null if Kafka has not noted it."""
        path = self._folder / "partition.metadata"
        if not path.exists():
            return None
        lines = dict(line.split(": ", 1) for line in path.read_text().splitlines() if ": " in line)
        return lines.get("topic_id")


def find_replicas(source: ReplicaSource, topics: Collection[str]) -> Iterator[Replica]:
    """What a broker holds of the topics, by name and number. Raises `EnvironmentFailure`."""
    if not source.data_dir.is_dir():
        raise EnvironmentFailure(
            f"the logs of broker {source.broker} cannot be read: there is no folder {source.data_dir}"
        )
    high_watermarks = _checkpoint(source.data_dir / "replication-offset-checkpoint")
    starts = _checkpoint(source.data_dir / "log-start-offset-checkpoint")
    found = []
    for folder in source.data_dir.iterdir():
        name = _FOLDER.fullmatch(folder.name)
        if name and name[1] in topics and folder.is_dir():
            found.append((name[1], int(name[2]), folder))
    for topic, partition, folder in sorted(found):
        replica = Replica(source.broker, topic, partition, folder)
        replica.high_watermark = high_watermarks.get((topic, partition))
        replica.log_start = max(replica.log_start, starts.get((topic, partition), 0))
        yield replica


def _checkpoint(path: Path) -> Mapping[tuple[str, int], int]:
    """Offsets by partition; none if there is no such file, or an empty one, as Kafka first makes it.

    Raises `EnvironmentFailure`.
    """
    if not path.exists() or not path.stat().st_size:
        return {}
    try:
        version, count, *lines = path.read_text().split("\n")
        entries = [line.split(" ") for line in lines if line]
        if int(version) != 0 or int(count) != len(entries):
            raise ValueError(f"{len(entries)} entries, version {version}, count {count}")
        return {(topic, int(partition)): int(offset) for topic, partition, offset in entries}
    except ValueError as error:
        raise EnvironmentFailure(f"{path} is not a checkpoint as Kafka writes it: {error}") from error
