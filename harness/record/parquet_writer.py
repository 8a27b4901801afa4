"""A Parquet table that is written as its rows come, and is there whole or not at all."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

WRITTEN: dict[str, Any] = {"compression": "zstd", "write_page_checksum": True}
"""How a table is written: with checksums, or a bit that has changed would be read as another value."""
_CHUNK_ROWS = 65_536  # held in memory; about 30 MB of Python objects


class ParquetWriter:
    """Takes rows as tuples in the order of the schema's columns."""

    def __init__(self, writer: pq.ParquetWriter, schema: pa.Schema) -> None:
        self._writer = writer
        self._schema = schema
        self._rows: list[tuple[object, ...]] = []

    def append(self, row: tuple[object, ...]) -> None:
        """Take one row; every so many are written."""
        self._rows.append(row)
        if len(self._rows) >= _CHUNK_ROWS:
            self.flush()

    def flush(self) -> None:
        """Write what is held as one row group."""
        if self._rows:
            columns = zip(*self._rows, strict=True)
            arrays = [
                pa.array(column, field.type) for column, field in zip(columns, self._schema, strict=True)
            ]
            self._writer.write_batch(pa.record_batch(arrays, schema=self._schema))
            self._rows = []


@contextmanager
def open_parquet(path: Path, schema: pa.Schema) -> Iterator[ParquetWriter]:
    """Write beside `path`; the file takes its name once it is complete."""
    part = path.with_name(path.name + ".part")
    with pq.ParquetWriter(part, schema, **WRITTEN) as writer:
        sheet = ParquetWriter(writer, schema)
        yield sheet
        sheet.flush()
    part.replace(path)
