"""Reading a small Parquet table whole. `pyarrow.parquet.read_table` loads pandas, which takes longer than the table."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


def read_parquet(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """All rows of a file. Raises `OSError` and `pyarrow.ArrowException` where it is missing or a page is damaged."""
    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        return file.read(columns=None if columns is None else list(columns))
