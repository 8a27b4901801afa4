"""Reading the tables of a stored run that are small. `pyarrow.parquet.read_table` loads pandas, which takes longer than
such a table.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from harness.record.schema import HISTORY

PART_ROWS = 1 << 20


def read_parquet(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """All rows of a file. Raises `OSError` and `pyarrow.ArrowException` where it is missing, lacks one of the columns,
    or a page is damaged.
    """
    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        for column in columns or ():
            if column not in file.schema_arrow.names:  # by itself it is left out in silence
                raise pa.ArrowKeyError(f"{path} has no column {column}")
        return file.read(columns=None if columns is None else list(columns))


def iterate_parquet(path: Path, columns: Sequence[str]) -> Iterator[pa.Table]:
    """The same of a file that may be large, at most `PART_ROWS` at a time."""
    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        for batch in file.iter_batches(PART_ROWS, columns=list(columns)):
            yield pa.Table.from_batches([batch])


def has_tables(folder: Path) -> bool:
    """Whether the tables of the clients' history are all there, in the folder of a run."""
    return all((folder / "history" / f"{table}.parquet").is_file() for table in HISTORY)
