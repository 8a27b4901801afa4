"""The input of the dependency graph: the versions of each key, and the readers of each version.

All edges follow from it (`checkers.external.graph.edges`), so edges are not stored. An operation is identified by its
*line*: its number, with that of its run in the upper bits, so that one number sorts the operations of many runs.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np
import pyarrow as pa

from checkers.external.by_key.arrays import begins, order_by
from checkers.external.by_key.rows import OperationRows, RecordRows

LINES = 1 << 40
"""A number larger than the number of lines of any history."""
FOLLOWED, READ = 1, 2
PACKED = 3 << 13
"""The number of records and readers in a pack, about 600 KB. Spark copies a pack several times, each time into one
contiguous block. In a JVM of 4 GB, a block of 1 MB (half a region) or more gets whole regions, which wastes a
third of the memory.
"""
PARTS = 1 << 12
"""A number larger than the number of packs that a task makes from its rows
(`checkers.external.by_key.shuffle.MOST`).
"""
PACK = pa.struct(
    [("id", pa.int32())]
    + [
        (name, pa.binary())
        for name in ("key", "value", "offset", "writer", "flags", "reader", "record", "last", "low", "high")
    ]
)


@dataclass(frozen=True)
class Pack:
    """Records in log order of their key, and their readers."""

    key: np.ndarray
    value: np.ndarray
    offset: np.ndarray  # the lowest known offset; negative: not known
    writer: np.ndarray  # the line of its writer; negative: not known
    flags: np.ndarray  # FOLLOWED: the next version is the next element; READ: ok-read
    reader: np.ndarray  # the line of a reader, for each record read as committed
    record: np.ndarray  # position in the arrays above
    last: np.ndarray  # true if it is the reader's last record of the key

    def blobs(self) -> dict[str, bytes]:
        """Return the arrays as bytes, as in PACK."""
        return {field.name: getattr(self, field.name).tobytes() for field in fields(self)}


KINDS = {
    "key": np.int64, "value": np.int64, "offset": np.int64, "writer": np.int64, "flags": np.uint8,
    "reader": np.int64, "record": np.int32, "last": bool,
}  # fmt: skip


def read_packs(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, Pack]]:
    """Yield the packs in rows of PACK, each with its id."""
    for batch in batches:
        for row in batch.to_pylist():
            yield row["id"], Pack(**{name: np.frombuffer(row[name], kind) for name, kind in KINDS.items()})


def cut(pack: Pack) -> Iterator[Pack]:
    """Split a pack into parts of about PACKED records and readers. Readers stay with their record.

    Each part also has the record after its last one, without flags and readers, because that can be the next version.
    """
    record_count = len(pack.key)
    part = np.cumsum(np.bincount(pack.record, minlength=record_count) + 1) // PACKED
    starts = np.flatnonzero(np.diff(part, prepend=-1))
    if len(starts) <= 1:
        yield pack
        return
    ends = [*starts[1:].tolist(), record_count]
    by_record = np.argsort(pack.record, kind="stable")
    readers = np.split(by_record, np.searchsorted(pack.record[by_record], starts[1:]))
    for start, end, part_readers in zip(starts.tolist(), ends, readers, strict=True):
        records = slice(start, end + 1)
        flags = pack.flags[records].copy()
        flags[end - start :] = 0
        yield Pack(
            key=pack.key[records],
            value=pack.value[records],
            offset=pack.offset[records],
            writer=pack.writer[records],
            flags=flags,
            reader=pack.reader[part_readers],
            record=pack.record[part_readers] - np.int32(start),
            last=pack.last[part_readers],
        )


def make_pack(rows: OperationRows, records: RecordRows) -> Pack:
    """Return the pack of all rows."""
    group, index = rows.group[records.first], records.index
    # Sort by the key itself, so that the order of the rows does not change the pack.
    order = order_by(rows.run[records.first], rows.key[records.first], index, rows.value[records.first])
    position = np.empty(len(order), np.int32)
    position[order] = np.arange(len(order), dtype=np.int32)
    written = records.writer >= 0
    this, following = order[:-1], order[1:]
    followed = np.zeros(len(order), bool)
    followed[:-1] = (
        (group[this] == group[following])
        & (index[this] > 0)
        & (index[following] == index[this] + 1)
        & written[following]
    )
    run = rows.run[records.first]
    line = np.where(written, run * LINES + records.writer, -1)
    polls = rows.polls[rows.committed[rows.polls]]
    last = np.zeros(len(polls), bool)
    if len(polls):
        last[:-1] = begins(rows.group[polls], rows.op[polls])[1:]
        last[-1] = True
    flags = followed * FOLLOWED + records.ok_read[order] * READ
    return Pack(
        key=rows.key[records.first][order],
        value=rows.value[records.first][order],
        offset=records.lowest_offset[order],
        writer=line[order],
        flags=flags.astype(np.uint8),
        reader=rows.run[polls] * LINES + rows.op[polls],
        record=position[records.of_row[polls]],
        last=last,
    )
