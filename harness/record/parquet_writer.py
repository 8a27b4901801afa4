"""A Parquet table that is written as its rows come, and is there whole or not at all.

Rows come one by one, or many at once as columns, which is several times faster. They are encoded by a thread of
the table's own (Arrow does not hold Python's lock there), one chunk at a time, while the next chunk is collected.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import accumulate, chain, repeat
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

PARQUET_OPTIONS: dict[str, Any] = {"compression": "zstd", "write_page_checksum": True}
"""How a table is written: with checksums, or a bit that has changed would be read as another value."""
CHUNK_ROWS = 65_536  # held in memory; about 30 MB of Python objects


class RowBuffer:
    """Rows that are collected, one by one or by column, until they are taken as a batch.

    Where all rows of a piece have the same cell it is kept once: of what a line of a journal says most is the same for
    all of its records.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._rows: list[Sequence[object]] = []  # that came one by one, and stand behind those in the columns
        self._begin()

    def _begin(self) -> None:
        self._cells: list[list[Any]] = [[] for _ in self._schema]
        self._same = [
            True for _ in self._schema
        ]  # its column has a cell for each piece, and not for each row
        self._counts: list[int] = []  # rows of each piece
        self._count = 0

    def __len__(self) -> int:
        return self._count + len(self._rows)

    def append(self, row: Sequence[object]) -> None:
        """Take one row."""
        self._rows.append(row)

    def extend(self, count: int, *columns: object) -> None:
        """Take `count` rows: of each column a list of its cells, or the one cell that all of them have."""
        self._settle()
        self._extend(count, columns)

    def _extend(self, count: int, columns: Sequence[object]) -> None:
        if len(columns) != len(self._cells):
            raise ValueError(f"{len(self._cells)} columns are filled, and not {len(columns)}")
        for n, given in enumerate(columns):
            if isinstance(given, list):
                if len(given) != count:
                    raise ValueError(f"of {count} rows not every column has a cell")
                self._spread(n)
                self._cells[n] += given
            elif self._same[n]:
                self._cells[n].append(given)
            else:
                self._cells[n] += repeat(given, count)
        self._counts.append(count)
        self._count += count

    def _spread(self, n: int) -> None:
        """Give each row of a column its cell."""
        if self._same[n]:
            self._cells[n] = list(chain.from_iterable(map(repeat, self._cells[n], self._counts)))
            self._same[n] = False

    def take(self) -> pa.RecordBatch:
        """All that was collected; it is empty then."""
        self._settle()
        pieces = enumerate(self._counts)
        of_row = pa.array(chain.from_iterable(repeat(piece, count) for piece, count in pieces), pa.int32())
        arrays = []
        for cells, same, field in zip(self._cells, self._same, self._schema, strict=True):
            array = _array(cells, field.type)
            arrays.append(array.take(of_row) if same else array)
        self._begin()
        return pa.record_batch(arrays, schema=self._schema)

    def _settle(self) -> None:
        if self._rows:
            rows, self._rows = self._rows, []
            self._extend(len(rows), [list(cells) for cells in zip(*rows, strict=True)])


class ParquetWriter:
    """Takes rows in the order of the schema's columns."""

    def __init__(self, writer: pq.ParquetWriter, schema: pa.Schema, encoder: ThreadPoolExecutor) -> None:
        self._writer = writer
        self._encoder = encoder
        self._encoding: Future[None] | None = None
        self._rows = RowBuffer(schema)

    def append(self, row: Sequence[object]) -> None:
        """Take one row; every so many are written."""
        self._rows.append(row)
        if len(self._rows) >= CHUNK_ROWS:
            self.flush()

    def extend(self, count: int, *columns: object) -> None:
        """Take many rows: see `RowBuffer.extend`."""
        self._rows.extend(count, *columns)
        if len(self._rows) >= CHUNK_ROWS:
            self.flush()

    def write(self, batch: pa.RecordBatch) -> None:
        """Write a batch of rows that somebody else has collected."""
        if self._encoding is not None:
            self._encoding.result()
        self._encoding = self._encoder.submit(self._writer.write_batch, batch)

    def flush(self) -> None:
        """Write what is held as one row group."""
        if len(self._rows):
            self.write(self._rows.take())

    def finish(self) -> None:
        """Write what is held, and wait until all of it is written."""
        self.flush()
        if self._encoding is not None:
            self._encoding.result()


@contextmanager
def open_parquet(path: Path, schema: pa.Schema) -> Iterator[ParquetWriter]:
    """Write beside `path`; the file takes its name once it is complete, and is gone if it is never."""
    part = path.with_name(path.name + ".part")
    try:
        with pq.ParquetWriter(part, schema, **PARQUET_OPTIONS) as writer, ThreadPoolExecutor(1) as encoder:
            sheet = ParquetWriter(writer, schema, encoder)
            yield sheet
            sheet.finish()
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _array(cells: list[Any], kind: pa.DataType) -> pa.Array:
    """A column; lists of structures are given as sequences of tuples, and are slow by the ordinary way."""
    if not (pa.types.is_list(kind) and pa.types.is_struct(kind.value_type)):
        return pa.array(cells, kind)
    starts = pa.array(accumulate(map(len, cells), initial=0), pa.int32())
    flat = list(chain.from_iterable(cells))
    struct = kind.value_type
    fields = [struct.field(n) for n in range(struct.num_fields)]
    columns = zip(*flat, strict=True) if flat else [()] * len(fields)
    values = [pa.array(column, field.type) for column, field in zip(columns, fields, strict=True)]
    return pa.ListArray.from_arrays(starts, pa.StructArray.from_arrays(values, fields=fields), type=kind)
