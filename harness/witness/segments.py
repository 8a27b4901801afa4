"""Find the replicas in a broker's data folder, and read the headers of their batches.

A folder `TOPIC-N` has segment files. The name of a segment file is its first offset. A segment is a sequence of batches
of magic 2: a header of 61 bytes, then the records. A killed broker may leave an incomplete batch at the end of its last
segment. The log ends before the first batch whose length or CRC-32C is wrong, as after a recovery by Kafka.

A broker with `log.preallocate` gives its last segment its full size in advance. The rest of it is zero: this is no
damage, unless the log ends below its high watermark.

The CRC of the last batch of the log is checked. SIGKILL can tear only this batch, because earlier writes are in the
page cache. `records` checks the CRC of each batch whose payload is used. The CRCs of other batches are not checked,
because Python checks only a few MB per second.

Reference: Kafka's documentation, "Message Format", "Record Batch".

`replication-offset-checkpoint` has the high watermarks. `log-start-offset-checkpoint` has each log start that is not
the first offset of a segment. `partition.metadata` in each partition's folder has the topic id. Kafka replaces these
files by rename, so they are always complete. It writes the high watermarks every five seconds and at a clean stop. If a
broker was killed, the high watermarks are lower bounds.
"""

import mmap
import os
import re
import struct
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

from kafka.record.util import calc_crc32c

from harness.common.errors import EnvironmentFailure

HEADER = struct.Struct(">qiibIhiqqqhii")
_LENGTH_END = 12  # the size of base offset and length, which `length` does not include
_ATTRIBUTES_POSITION = 21  # the position of the attributes, the first field that the CRC covers
_CODEC, _TRANSACTIONAL, _CONTROL = 0x07, 0x10, 0x20  # bits of the attributes
_MAX_MESSAGES = 5
_PART_BYTES = 1 << 20
_FOLDER = re.compile(r"(.+)-(\d+)")  # folders that end in -delete, -future or -stray do not match


class LogBatch(NamedTuple):
    """The header of a batch, and the position of its payload."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    epoch: int
    base_sequence: int
    records: int
    source: mmap.mmap  # it may be closed when the next batch is read
    position: int

    @property
    def last_offset(self) -> int:
        """The offset of its last record. Compaction may have removed this record."""
        return self.base_offset + self.last_offset_delta

    @property
    def codec(self) -> int:
        """The compression of the records. 0 if they are not compressed."""
        return self.attributes & _CODEC

    @property
    def transactional(self) -> bool:
        """Whether it is part of a transaction. This is true for markers too."""
        return bool(self.attributes & _TRANSACTIONAL)

    @property
    def control(self) -> bool:
        """Whether it is a control batch: a marker, or another record of the broker itself."""
        return bool(self.attributes & _CONTROL)

    @property
    def end(self) -> int:
        """The position of the next batch in the same segment."""
        return self.position + _LENGTH_END + self.length

    def payload(self) -> bytes:
        """Return the records as bytes, which may be compressed."""
        return self.source[self.position + HEADER.size : self.end]

    def intact(self) -> bool:
        """Return whether the CRC is correct."""
        return bool(calc_crc32c(self.source[self.position + _ATTRIBUTES_POSITION : self.end]) == self.crc)


class ReplicaDamage:
    """The parts of a replica that could not be read: a count, and messages for the first five."""

    def __init__(self) -> None:
        self.zeros = ""  # where the last segment has only zeros; empty: nowhere
        self._messages: list[str] = []
        self._count = 0

    def add(self, message: str) -> None:
        """Add a part that could not be read."""
        self._count += 1
        if len(self._messages) < _MAX_MESSAGES:
            self._messages.append(message)

    def __str__(self) -> str:
        more = self._count - len(self._messages)
        return "; ".join([*self._messages, *([f"and {more} more"] if more else [])])

    def __bool__(self) -> bool:
        return bool(self._count)


def segment_files(folder: Path) -> list[Path]:
    """Return a partition's segment files in the order of their offsets."""
    return sorted(path for path in folder.glob("*.log") if path.stem.isdigit())


def read_log(folder: Path, damage: ReplicaDamage) -> Iterator[LogBatch]:
    """Yield the intact batches of a partition in order. Add a message for each damaged part to `damage`."""
    files = segment_files(folder)
    next_offset = -1
    for path in files:
        for batch in _read_segment(path, damage, last=path == files[-1]):
            if batch.base_offset < next_offset or batch.last_offset_delta < 0 or batch.records < 0:
                damage.add(f"{path.name}: the offsets of the batch at byte {batch.position} are out of order")
                continue
            next_offset = batch.last_offset + 1
            yield batch


def _read_segment(path: Path, damage: ReplicaDamage, *, last: bool) -> Iterator[LogBatch]:
    size = path.stat().st_size
    if size == 0:  # mmap refuses an empty file
        return
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as source:
        position = 0
        while position < size:
            batch = _batch_at(source, position, size)
            # Up to eight zeros may be the offset of a batch that is torn.
            if batch is None and last and size - position >= _LENGTH_END and _is_zero(file, position, size):
                damage.zeros = f"{path.name}: only zeros from byte {position}, {size - position} bytes"
                return
            if batch is None or (last and _is_last(file, batch, size) and not batch.intact()):
                problem = "torn tail" if last else "damaged"
                damage.add(
                    f"{path.name}: {problem} from byte {position}, {size - position} bytes are not read"
                )
                return
            yield batch
            position = batch.end


def _is_last(file: BinaryIO, batch: LogBatch, size: int) -> bool:
    """Return whether no batch follows in the segment: it ends, or the rest of it is zero."""
    following = batch.source[batch.end : batch.end + HEADER.size]  # a header has the magic byte 2
    return not following.strip(b"\0") and _is_zero(file, batch.end, size)


def _is_zero(file: BinaryIO, start: int, end: int) -> bool:
    """Return whether all bytes from `start` to `end` are zero. Parts that were never written are skipped."""
    position = start
    while position < end:
        try:
            position = os.lseek(file.fileno(), position, os.SEEK_DATA)
        except OSError:  # no byte was written from here on
            return True
        part = os.pread(file.fileno(), min(_PART_BYTES, end - position), position)
        if not part or part.strip(b"\0"):
            return not part
        position += len(part)
    return True


def _batch_at(source: mmap.mmap, position: int, size: int) -> LogBatch | None:
    """Read the batch at a position. None if there is no complete batch."""
    if size - position < HEADER.size:
        return None
    batch = LogBatch._make((*HEADER.unpack_from(source, position), source, position))
    complete = batch.magic == 2 and batch.length >= HEADER.size - _LENGTH_END and batch.end <= size
    return batch if complete else None


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
