"""The input of the dependency graph: the versions of each key, and the readers of each version; and the edges.

All edges follow from the *packs* of versions (`edges_of`), so edges are not stored. An operation is identified by its
*line*: its number, with that of its run in the upper bits, so that one number sorts the operations of many runs.

An edge leads from an operation to one that depends on it, through a record of the pack:

`wr`   src wrote the record, and dst read it
`ww`   src wrote the record, and dst wrote the following record in the version order
`rw`   src read the record as its last one of the key, and dst wrote the following record, which src did not read

Readers and writers with any outcome count, as in Jepsen's checker. An operation that never completed counts as `info`
if one of its records was read. Process and realtime edges follow from the operations themselves
(`checkers.histories.components`).

**Intervals** say where cycles can be, without iteration. Order the operations by their lines. An edge that goes back in
this order spans an interval. Overlapping intervals are merged. Every cycle lies in one merged interval, for any order:
between the first and the last operation of a cycle, each step of the order must be crossed backwards by an edge of the
cycle. So only edges inside one interval must be checked, and intervals are independent.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, fields

import numpy as np
import pyarrow as pa

from checkers.external_tables import RW, WR, WW
from checkers.histories.arrays import begins, order_by
from checkers.histories.records import OperationRows, RecordRows

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
(`checkers.histories.by_key.MOST`).
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


@dataclass(frozen=True)
class Edges:
    """Edges of one kind between lines, with their records."""

    src: np.ndarray
    dst: np.ndarray
    record: np.ndarray

    def __getitem__(self, rows: np.ndarray) -> "Edges":
        return Edges(self.src[rows], self.dst[rows], self.record[rows])


def edges_of(pack: Pack, kinds: Collection[int] = (WR, WW, RW)) -> dict[int, Edges]:
    """Return the edges by kind, without edges from an operation to itself."""
    makers = {WR: _wr, WW: _ww, RW: _rw}
    by_kind = {kind: makers[kind](pack) for kind in kinds}
    return {kind: edges[edges.src != edges.dst] for kind, edges in by_kind.items()}


def _wr(pack: Pack) -> Edges:
    written = pack.writer[pack.record] >= 0
    record = pack.record[written]
    return Edges(pack.writer[record], pack.reader[written], record)


def _ww(pack: Pack) -> Edges:
    record = np.flatnonzero(((pack.flags & FOLLOWED) != 0) & (pack.writer >= 0))
    return Edges(pack.writer[record], pack.writer[record + 1], record)


def _rw(pack: Pack) -> Edges:
    reads = np.flatnonzero(pack.last & ((pack.flags[pack.record] & FOLLOWED) != 0))
    record = pack.record[reads]
    return Edges(pack.reader[reads], pack.writer[record + 1], record)


Intervals = tuple[np.ndarray, np.ndarray]
"""The first and the last line of each interval."""


def backward_spans(edges: Mapping[int, Edges]) -> Intervals:
    """Return the intervals that edges span backwards."""
    back = [part[part.dst < part.src] for part in edges.values()]
    return np.concatenate([part.dst for part in back]), np.concatenate([part.src for part in back])


def merge_intervals(low: np.ndarray, high: np.ndarray) -> Intervals:
    """Return the intervals in order; those that overlap or touch are merged."""
    if not len(low):
        return low, high
    order = np.argsort(low)
    low, reach = low[order], np.maximum.accumulate(high[order])
    opens = np.concatenate([[True], low[1:] > reach[:-1]])
    return low[opens], reach[np.concatenate([opens[1:], [True]])]


@dataclass(frozen=True)
class MergedIntervals:
    """Merged intervals, and the group of each: the intervals that one task checks together."""

    first: np.ndarray
    last: np.ndarray
    group: np.ndarray

    def span_of(self, line: np.ndarray) -> np.ndarray:
        """Return the number of the interval that contains each line, or -1."""
        at = np.searchsorted(self.first, line, side="right") - 1
        return np.where((at >= 0) & (line <= self.last[at]), at, -1)

    def within(self, edges: Edges) -> tuple[Edges, np.ndarray]:
        """Return the edges with both ends in one interval, and the group of each."""
        span = self.span_of(edges.src)
        inside = np.flatnonzero(span >= 0)
        inside = inside[self.span_of(edges.dst[inside]) == span[inside]]
        return edges[inside], self.group[span[inside]]


def make_spans(first: np.ndarray, last: np.ndarray, lines_a_group: int) -> MergedIntervals:
    """Group merged intervals so that each group has about `lines_a_group` lines."""
    before = np.cumsum(last - first + 1) - (last - first + 1)
    return MergedIntervals(first, last, (before // lines_a_group).astype(np.int32))
