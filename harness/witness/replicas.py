"""Find the replicas in a broker's data folder, with their log starts, high watermarks and topic ids.

`replication-offset-checkpoint` has the high watermarks. `log-start-offset-checkpoint` has each log start that is not
the first offset of a segment. `partition.metadata` in each partition's folder has the topic id. Kafka replaces these
files by rename, so they are always complete. It writes the high watermarks every five seconds and at a clean stop.
If a broker was killed, the high watermarks are lower bounds.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.common.errors import EnvironmentFailure
from harness.witness.segments import LogBatch, ReplicaDamage, read_log, segment_files

_FOLDER = re.compile(r"(.+)-(\d+)")  # folders that end in -delete, -future or -stray do not match


@dataclass(frozen=True)
class ReplicaSource:
    """A broker and its data folder."""

    broker: int
    data_dir: Path


class Replica:
    """One broker's replica of a partition. `log_end` and `damage` are known only after `read`."""

    def __init__(self, broker: int, topic: str, partition: int, folder: Path) -> None:
        self.broker = broker
        self.topic = topic
        self.partition = partition
        self.damage = ReplicaDamage()
        self.high_watermark: int | None = None  # None: Kafka has not written one
        self._folder = folder
        bases = [int(path.stem) for path in segment_files(folder)]
        self.log_start = bases[0] if bases else 0
        self.log_end = bases[-1] if bases else 0

    def last_epoch_and_end(self) -> tuple[int, int]:
        """Read the log, and return the last leader epoch and the log end. The epoch is -1 if the log is empty."""
        epoch, end = -1, self.log_end
        for batch in read_log(self._folder, ReplicaDamage()):
            epoch, end = batch.leader_epoch, max(end, batch.last_offset + 1)
        return epoch, end

    def read(self) -> Iterator[LogBatch]:
        """Yield the batches in order. A file may still have batches below the log start; they are included."""
        for batch in read_log(self._folder, self.damage):
            self.log_end = max(self.log_end, batch.last_offset + 1)
            yield batch
        if self.damage.zeros and self.high_watermark is not None and self.log_end < self.high_watermark:
            self.damage.add(f"{self.damage.zeros}; the high watermark is {self.high_watermark}")

    def topic_id(self) -> str | None:
        """Return the topic's id. None if Kafka has not written it."""
        path = self._folder / "partition.metadata"
        if not path.exists():
            return None
        lines = dict(
            line.split(": ", 1) for line in path.read_text(encoding="utf-8").splitlines() if ": " in line
        )
        return lines.get("topic_id")


def find_replicas(source: ReplicaSource, topics: Collection[str]) -> Iterator[Replica]:
    """Yield a broker's replicas of these topics, sorted by topic and number. Raises `EnvironmentFailure`."""
    if not source.data_dir.is_dir():
        raise EnvironmentFailure(
            f"the logs of broker {source.broker} cannot be read: there is no folder {source.data_dir}"
        )
    high_watermarks = _read_checkpoint(source.data_dir / "replication-offset-checkpoint")
    starts = _read_checkpoint(source.data_dir / "log-start-offset-checkpoint")
    folders = []
    for folder in source.data_dir.iterdir():
        name = _FOLDER.fullmatch(folder.name)
        if name and name[1] in topics and folder.is_dir():
            folders.append((name[1], int(name[2]), folder))
    for topic, partition, folder in sorted(folders):
        replica = Replica(source.broker, topic, partition, folder)
        replica.high_watermark = high_watermarks.get((topic, partition))
        replica.log_start = max(replica.log_start, starts.get((topic, partition), 0))
        yield replica


def _read_checkpoint(path: Path) -> Mapping[tuple[str, int], int]:
    """Read offsets by partition. Empty if the file does not exist, or is empty as Kafka creates it.

    Raises `EnvironmentFailure`.
    """
    if not path.exists() or not path.stat().st_size:
        return {}
    try:
        version, count, *lines = path.read_text(encoding="utf-8").split("\n")
        entries = [line.split(" ") for line in lines if line]
        if int(version) != 0 or int(count) != len(entries):
            raise ValueError(f"{len(entries)} entries, version {version}, count {count}")
        return {(topic, int(partition)): int(offset) for topic, partition, offset in entries}
    except ValueError as error:
        raise EnvironmentFailure(f"{path} is not a checkpoint file of Kafka: {error}") from error
