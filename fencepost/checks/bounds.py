"""Bounds of what is read from a stored run, so that a damaged file is refused before it fills the memory.

A file of a few kilobytes can claim 100 million rows, partitions or offsets. Each bound is far above what a run can
write. A run that exceeds one is refused as unreadable, and the other histories of the call are still checked.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness.common.errors import UnreadableInput
from harness.record.parquet_reader import iterate_parquet

MOST_ROWS = 500_000_000
"""Rows of a table. A run of a day at 5,000 inputs a second writes fewer."""
ROWS_PER_BYTE = 64
"""Rows of a table for each byte of its file. Each row has a number that the row before does not have."""
FREE_ROWS = 1_000_000
"""A table with fewer rows than this may have any size."""
MOST_ROWS_HELD = 1_500_000
"""Rows of a table that is held in memory as a whole: a row for each partition and each of seven brokers or readers."""
HELD = frozenset({"partitions", "stages", "journals", "ends", "replicas"})
MOST_GROUP_BYTES = 1 << 30
"""Uncompressed bytes of a row group. A run writes groups of 65,536 rows."""
VALUES_PER_ROW = 10_000
"""Values of a list in a row group, for each of its rows. The longest list has the inputs of an output: `txn-size`."""
MOST_SPAN = 1 << 22
"""Offsets of a batch or a claim. A record has seven bytes or more, so a batch of Kafka's default size, 1 MiB, has at
most 150,000 records; a claim has the inputs of one operation, `txn-size`."""
SPANS_PER_ROW = 1000
FREE_SPANS = 10_000_000
"""All batches together may have this many offsets, and `SPANS_PER_ROW` more for each row of the run's tables."""
SPANS: Mapping[str, tuple[str, str, str]] = {
    "history/claims": ("first", "next", "a claim"),
    "log/batches": ("base_offset", "last_offset", "a batch"),
}
"""By table, the two columns that are the ends of a range of offsets, which Spark makes one row each of."""


def require_bounded_table(path: Path, metadata: pq.FileMetaData) -> None:
    """Raise `UnreadableInput` if the metadata of a table show that reading it would need too much memory."""
    rows = metadata.num_rows
    most = MOST_ROWS_HELD if path.stem in HELD else MOST_ROWS
    if rows > most or (rows > FREE_ROWS and rows > ROWS_PER_BYTE * path.stat().st_size):
        raise UnreadableInput(
            f"{path} cannot be read: it has {rows:,} rows in {path.stat().st_size:,} bytes, which no run writes"
        )
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        if group.total_byte_size > MOST_GROUP_BYTES:
            raise UnreadableInput(
                f"{path} cannot be read: a part of it has {group.total_byte_size:,} bytes without compression, and at "
                f"most {MOST_GROUP_BYTES:,} are read"
            )
        values = max((group.column(at).num_values for at in range(group.num_columns)), default=0)
        if values > VALUES_PER_ROW * max(group.num_rows, 1):
            raise UnreadableInput(
                f"{path} cannot be read: its lists have {values:,} values in {group.num_rows:,} rows, which no "
                "run writes"
            )


def require_bounded_ranges(folder: Path) -> None:
    """Raise `UnreadableInput` if a batch or a claim has more offsets than one can have, or all have too many."""
    rows = sum(pq.read_metadata(path).num_rows for path in folder.glob("*/*.parquet"))
    most_in_all = FREE_SPANS + SPANS_PER_ROW * rows
    for table, (first, last, name) in SPANS.items():
        path, in_all = folder / f"{table}.parquet", 0
        for part in iterate_parquet(path, [first, last]) if path.is_file() else ():
            for low, high in _widest(part, first, last):
                raise UnreadableInput(
                    f"{path} cannot be read: {name} has the offsets {low:,} to {high:,}, and at most {MOST_SPAN:,} "
                    "offsets can be in one"
                )
            in_all += pc.sum(pc.abs(pc.subtract(part[last], part[first]))).as_py() or 0
        if in_all > most_in_all:
            raise UnreadableInput(
                f"{path} cannot be read: its rows have {in_all:,} offsets, and at most {most_in_all:,} are expected "
                f"in a run with {rows:,} rows"
            )


def _widest(part: pa.Table, first: str, last: str) -> Iterator[tuple[int, int]]:
    """Yield the ends of the first range that is too long, if there is one. An end may be any integer of 64 bits."""
    low, high = (pc.cast(part[column], pa.float64(), safe=False) for column in (first, last))
    at = pc.index(pc.greater(pc.abs(pc.subtract(high, low)), float(MOST_SPAN)), True).as_py()
    if at >= 0:
        yield part[first][at].as_py(), part[last][at].as_py()
