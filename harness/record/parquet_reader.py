"""Reads tables of a stored run without Spark.

It does not use `pyarrow.parquet.read_table`, because that loads pandas, which takes longer than the read of a small
table.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from harness.record.schema import HISTORY

PART_ROWS = 1 << 20


def read_parquet(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """Read all rows of a file.

    Raises `OSError` or `pyarrow.ArrowException` if the file is missing or damaged, or lacks one of the columns.
    """
    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        for column in columns or ():
            if column not in file.schema_arrow.names:  # PyArrow would leave the column out without an error
                raise pa.ArrowKeyError(f"{path} has no column {column}")
        return file.read(columns=None if columns is None else list(columns))


def iterate_parquet(path: Path, columns: Sequence[str]) -> Iterator[pa.Table]:
    """Yield the rows of a large file in tables of at most `PART_ROWS` rows."""
    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        for batch in file.iter_batches(PART_ROWS, columns=list(columns)):
            yield pa.Table.from_batches([batch])


def has_tables(folder: Path) -> bool:
    """Return whether a run folder has all tables of `history/`."""
    return all((folder / "history" / f"{table}.parquet").is_file() for table in HISTORY)
