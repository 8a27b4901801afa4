"""Record batches in a partition's folder, by their headers; payloads are stepped over.

A folder `TOPIC-N` holds segments, each a file named for its first offset, full of batches of magic
2: a header of 61 bytes, then the records. A broker that was killed may leave an append half done at
the end of its last segment. The log ends there, as it does for Kafka when it recovers: at the first
batch whose length or CRC-32C is wrong.

The CRC is computed for the batch that ends the log, which is where SIGKILL can tear it (whatever
was written before is in the page cache), and by `records` for each batch whose payload is used.
Not for the others: that would read every byte of the run, in Python at a few MB/s.

Reference: Kafka's documentation, "Message Format", "Record Batch".
"""

import mmap
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kafka.record.util import calc_crc32c

HEADER = struct.Struct(">qiibIhiqqqhii")
_LENGTH_END = 12  # base offset and length: what the length does not count
_CHECKED_FROM = 21  # the CRC covers everything from the attributes on
_CODEC, _TRANSACTIONAL, _CONTROL = 0x07, 0x10, 0x20  # bits of the attributes
_MOST_WORDS = 5


class LogBatch(NamedTuple):
    """The header of a batch, and where the rest of it lies."""

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
    source: mmap.mmap  # open while the iteration stands at this batch
    at: int

    @property
    def last_offset(self) -> int:
        """The offset of its last record, or of the last there was before compaction."""
        return self.base_offset + self.last_offset_delta

    @property
    def codec(self) -> int:
        """How the records are compressed; 0: not at all."""
        return self.attributes & _CODEC

    @property
    def transactional(self) -> bool:
        """Whether it is part of a transaction, as its marker is."""
        return bool(self.attributes & _TRANSACTIONAL)

    @property
    def control(self) -> bool:
        """Whether it was written by a broker: a marker, or a note of the broker's own."""
        return bool(self.attributes & _CONTROL)

    @property
    def end(self) -> int:
        """Where the next batch begins in the same segment."""
        return self.at + _LENGTH_END + self.length

    def payload(self) -> bytes:
        """The records, perhaps compressed."""
        return self.source[self.at + HEADER.size : self.end]

    def intact(self) -> bool:
        """Whether the CRC agrees with what is there."""
        return bool(calc_crc32c(self.source[self.at + _CHECKED_FROM : self.end]) == self.crc)


class ReplicaDamage:
    """What could not be read of a replica: counts all, words the first few."""

    def __init__(self) -> None:
        self._words: list[str] = []
        self._count = 0

    def add(self, words: str) -> None:
        """One more thing that could not be read."""
        self._count += 1
        if len(self._words) < _MOST_WORDS:
            self._words.append(words)

    def __str__(self) -> str:
        more = self._count - len(self._words)
        return "; ".join([*self._words, *([f"and {more} more"] if more else [])])

    def __bool__(self) -> bool:
        return bool(self._count)


def segment_files(folder: Path) -> list[Path]:
    """A partition's segments, in the order of their offsets."""
    return sorted(path for path in folder.glob("*.log") if path.stem.isdigit())


def read_log(folder: Path, damage: ReplicaDamage) -> Iterator[LogBatch]:
    """Every batch of a partition's folder that can be trusted, in order; the rest goes to `damage`."""
    files = segment_files(folder)
    next_offset = -1
    for path in files:
        for batch in _read_segment(path, damage, last=path == files[-1]):
            if batch.base_offset < next_offset or batch.last_offset_delta < 0 or batch.records < 0:
                damage.add(f"{path.name}: offsets of the batch at byte {batch.at} do not follow")
                continue
            next_offset = batch.last_offset + 1
            yield batch


def _read_segment(path: Path, damage: ReplicaDamage, *, last: bool) -> Iterator[LogBatch]:
    size = path.stat().st_size
    if size == 0:  # nothing to map
        return
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as source:
        at = 0
        while at < size:
            batch = _batch_at(source, at, size)
            if batch is None or (last and batch.end == size and not batch.intact()):
                where = "torn tail" if last else "damaged"
                damage.add(f"{path.name}: {where} from byte {at}, {size - at} bytes are not read")
                return
            yield batch
            at = batch.end


def _batch_at(source: mmap.mmap, at: int, size: int) -> LogBatch | None:
    """The batch that begins there; null if none does that is whole."""
    if size - at < HEADER.size:
        return None
    batch = LogBatch._make((*HEADER.unpack_from(source, at), source, at))
    whole = batch.magic == 2 and batch.length >= HEADER.size - _LENGTH_END and batch.end <= size
    return batch if whole else None
