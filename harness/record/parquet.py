"""Write Parquet files row by row, and read the tables of a stored run within bounds and without Spark.

A file appears only after it is complete. Rows are added one by one, or many at once as columns, which is several times
faster. A separate thread for each file encodes one chunk of rows while the next chunk is collected. (Arrow releases
Python's lock while it encodes.)

The reader does not use `pyarrow.parquet.read_table`, because that loads pandas, which takes longer than the read of a
small table.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import accumulate, chain, repeat
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from harness.record.schema import HISTORY

PARQUET_OPTIONS: dict[str, Any] = {"compression": "zstd", "write_page_checksum": True}
"""With checksums: without them, a reader would not notice a flipped bit."""
CHUNK_ROWS = 65_536  # rows in memory: about 30 MB of Python objects
PART_ROWS = 1 << 20


class RowBuffer:
    """Collects rows, one by one or as columns, and returns them as one record batch.

    One call of `extend` adds one piece. A cell that all rows of a piece share is stored once. This saves memory: one
    journal line has many records, and most cells of their rows are equal.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._rows: list[Sequence[object]] = []  # rows from `append`, which follow the rows in `_cells`
        self._begin()

    def _begin(self) -> None:
        self._cells: list[list[Any]] = [[] for _ in self._schema]
        # True: the column has one cell for each piece, and not one for each row.
        self._is_shared = [True for _ in self._schema]
        self._counts: list[int] = []  # the number of rows of each piece
        self._count = 0

    def __len__(self) -> int:
        return self._count + len(self._rows)

    def append(self, row: Sequence[object]) -> None:
        """Add one row."""
        self._rows.append(row)

    def extend(self, count: int, *columns: object) -> None:
        """Add `count` rows. Each column is a list of cells, or the one cell that all rows share."""
        self._add_rows()
        self._extend(count, columns)

    def _extend(self, count: int, columns: Sequence[object]) -> None:
        if len(columns) != len(self._cells):
            raise ValueError(f"the table has {len(self._cells)} columns, but the rows have {len(columns)}")
        for n, cells in enumerate(columns):
            if isinstance(cells, list):
                if len(cells) != count:
                    raise ValueError(f"a column has {len(cells)} cells, but there are {count} rows")
                self._spread(n)
                self._cells[n] += cells
            elif self._is_shared[n]:
                self._cells[n].append(cells)
            else:
                self._cells[n] += repeat(cells, count)
        self._counts.append(count)
        self._count += count

    def _spread(self, n: int) -> None:
        """Change a column from one cell for each piece to one cell for each row."""
        if self._is_shared[n]:
            self._cells[n] = list(chain.from_iterable(map(repeat, self._cells[n], self._counts)))
            self._is_shared[n] = False

    def take(self) -> pa.RecordBatch:
        """Return all collected rows, and clear the buffer."""
        self._add_rows()
        pieces = enumerate(self._counts)
        of_row = pa.array(chain.from_iterable(repeat(piece, count) for piece, count in pieces), pa.int32())
        arrays = []
        for cells, is_shared, field in zip(self._cells, self._is_shared, self._schema, strict=True):
            array = _array(cells, field.type)
            arrays.append(array.take(of_row) if is_shared else array)
        self._begin()
        return pa.record_batch(arrays, schema=self._schema)

    def _add_rows(self) -> None:
        if self._rows:
            rows, self._rows = self._rows, []
            self._extend(len(rows), [list(cells) for cells in zip(*rows, strict=True)])


class ParquetWriter:
    """Writes one Parquet file. The cells of a row have the order of the columns of the schema."""

    def __init__(self, writer: pq.ParquetWriter, schema: pa.Schema, encoder: ThreadPoolExecutor) -> None:
        self._writer = writer
        self._encoder = encoder
        self._encoding: Future[None] | None = None
        self._rows = RowBuffer(schema)

    def append(self, row: Sequence[object]) -> None:
        """Add one row. Each full chunk is written."""
        self._rows.append(row)
        if len(self._rows) >= CHUNK_ROWS:
            self.flush()

    def extend(self, count: int, *columns: object) -> None:
        """Add many rows: see `RowBuffer.extend`."""
        self._rows.extend(count, *columns)
        if len(self._rows) >= CHUNK_ROWS:
            self.flush()

    def write(self, batch: pa.RecordBatch) -> None:
        """Write a record batch."""
        if self._encoding is not None:
            self._encoding.result()
        self._encoding = self._encoder.submit(self._writer.write_batch, batch)

    def flush(self) -> None:
        """Write the collected rows as one row group."""
        if len(self._rows):
            self.write(self._rows.take())

    def finish(self) -> None:
        """Write the collected rows, and wait until everything is written."""
        self.flush()
        if self._encoding is not None:
            self._encoding.result()


@contextmanager
def open_parquet(path: Path, schema: pa.Schema) -> Iterator[ParquetWriter]:
    """Open a writer of a temporary file. At the end, rename the file to `path`; after an error, delete it."""
    part = path.with_name(path.name + ".part")
    try:
        with pq.ParquetWriter(part, schema, **PARQUET_OPTIONS) as writer, ThreadPoolExecutor(1) as encoder:
            table = ParquetWriter(writer, schema, encoder)
            yield table
            table.finish()
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _array(cells: list[Any], kind: pa.DataType) -> pa.Array:
    """Make an Arrow array.

    Lists of structures, as sequences of tuples, are converted by column, because `pa.array` is slow.
    """
    if not (pa.types.is_list(kind) and pa.types.is_struct(kind.value_type)):
        return pa.array(cells, kind)
    starts = pa.array(accumulate(map(len, cells), initial=0), pa.int32())
    flat = list(chain.from_iterable(cells))
    struct = kind.value_type
    fields = [struct.field(n) for n in range(struct.num_fields)]
    columns = zip(*flat, strict=True) if flat else [()] * len(fields)
    values = [pa.array(column, field.type) for column, field in zip(columns, fields, strict=True)]
    return pa.ListArray.from_arrays(starts, pa.StructArray.from_arrays(values, fields=fields), type=kind)


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
