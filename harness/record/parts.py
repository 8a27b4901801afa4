"""Part files: a final reader writes its results as columns, in files that its journal lists.

A part file is an Arrow file with rows of one table. It is written under a temporary name, and renamed after it is
complete. Then an event `part` in the journal lists it, with its number of rows and its CRC-32:

    {"index":9,"time":5,"type":"part","table":"polls","file":"0-polls.arrow","rows":65536,"crc":7}

A file without such an event is not complete, and is ignored. If a file with such an event is missing or damaged, it
counts as a missing line of the journal, because evidence is lost.
"""

import shutil
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from harness.model.expectation import ExpectedOutput, ExpectedSum
from harness.record.events import PartWritten
from harness.record.journal import Journal
from harness.record.naming import key_name
from harness.record.parquet import CHUNK_ROWS, RowBuffer
from harness.record.schema import HISTORY

Cells = tuple[object, ...]
_ADDED = {
    "polls": ("run", "role", "promised"),
    "records": ("run",),
    "expected": ("run", "group"),
}
"""By table: the columns that `read_part` adds, because all rows share them or another column implies them."""
SCHEMAS: Mapping[str, pa.Schema] = {
    table: pa.schema([column for column in HISTORY[table] if column.name not in added])
    for table, added in _ADDED.items()
}
"""The columns of the part files of each table. `op` is the number of the operation in the journal, not in the run."""


def numbered(rows: Sequence[Cells]) -> list[Cells]:
    """Complete the rows of one input by their index, which shows if one of them is lost."""
    return [(*row, n) for n, row in enumerate(rows)]


def expected_output_row(expected: ExpectedOutput, tp: int, partition: int, offset: int) -> Cells:
    """Return the row of an expected output of an input, without its index. `tp` and `offset` name the input."""
    crc = expected.digest(partition, offset)
    return (
        expected.stage,
        tp,
        offset,
        expected.output_name,
        expected.topic,
        crc,
        None,
        None,
        expected.intermediate_topic,
        expected.correlation_key,
        expected.content,
    )


def expected_sum_row(add: ExpectedSum, tp: int, offset: int) -> Cells:
    """Return the row of an amount that an input adds to a sum, without its index. `tp` and `offset` name the input."""
    return (
        add.stage,
        tp,
        offset,
        None,
        add.topic,
        None,
        key_name(add.key),
        add.amount,
        None,
        None,
        add.content,
    )


class DamagedPart(Exception):
    """A part file is missing or has changed since it was written."""


class PartWriter:
    """Collects rows by table. When a table has enough rows, writes them as a part file."""

    def __init__(self, journal: Journal, folder: Path) -> None:
        self._journal = journal
        self._folder = folder
        self._buffers = {table: RowBuffer(schema) for table, schema in SCHEMAS.items()}
        self._written = 0
        folder.mkdir()

    def extend(self, table: str, count: int, *columns: object) -> None:
        """Add rows: see `RowBuffer.extend`."""
        buffer = self._buffers[table]
        buffer.extend(count, *columns)
        if len(buffer) >= CHUNK_ROWS:
            self._write_part(table)

    def finish(self) -> None:
        """Write the remaining rows."""
        for table, buffer in self._buffers.items():
            if len(buffer):
                self._write_part(table)

    def _write_part(self, table: str) -> None:
        batch = self._buffers[table].take()
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
            writer.write_batch(batch)
        content = sink.getvalue()
        path = self._folder / f"{self._written}-{table}.arrow"
        unfinished = path.with_suffix(".unfinished")
        unfinished.write_bytes(content)
        unfinished.replace(path)
        self._written += 1
        self._journal.write(
            PartWritten(
                table=table,
                file=path.name,
                rows=batch.num_rows,
                crc=zlib.crc32(content),
            )
        )


def remove_parts(journal: Path) -> None:
    """Delete the journal and the part files of an earlier start of the same reader."""
    journal.unlink(missing_ok=True)
    if parts_folder(journal).exists():
        shutil.rmtree(parts_folder(journal))


def parts_folder(journal: Path) -> Path:
    """Return the folder with the part files of a journal."""
    return journal.with_suffix("")


def read_part(
    folder: Path,
    event: PartWritten,
    first_op: int,
    shared_cells: Mapping[str, object],
    group_of: Callable[[str], str | None],
) -> tuple[str, pa.RecordBatch]:
    """Read a part file and add the missing columns.

    Args:
        folder: The folder with the part files of the journal.
        event: The event of the journal that lists the part file.
        first_op: The number, within the run, of the reader's first operation.
        same: The cells of `run`, `role` and `promised`, which all rows share.
        group_of: Takes the name of a stage and returns its group.

    Returns:
        The name of the table, and the rows with all its columns.

    Raises:
        DamagedPart: The part file is missing or has changed since it was written.
    """
    table, batch = _stored(folder, event)
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    if "op" in columns:
        columns["op"] = pc.add(columns["op"], pa.scalar(first_op, pa.int64()))
    if "stage" in columns:
        stages = columns["stage"].dictionary_encode()
        groups = [group_of(stage) for stage in stages.dictionary.to_pylist()]
        columns["group"] = pa.array(groups, pa.string()).take(stages.indices)
    for field in HISTORY[table]:
        if field.name not in columns:
            columns[field.name] = pa.repeat(pa.scalar(shared_cells[field.name], field.type), batch.num_rows)
    return table, pa.record_batch([columns[field.name] for field in HISTORY[table]], schema=HISTORY[table])


def _stored(folder: Path, event: PartWritten) -> tuple[str, pa.RecordBatch]:
    """Return the name of the table and the rows of a part file. Raises `DamagedPart`."""
    path = folder / Path(event.file).name
    try:
        content = path.read_bytes()
        if zlib.crc32(content) != event.crc:
            raise DamagedPart(f"{path} has changed since it was written")
        with pa.ipc.open_file(pa.BufferReader(content)) as reader:
            batch = reader.get_batch(0)
    except (OSError, pa.ArrowException) as error:
        raise DamagedPart(f"{path} cannot be read: {error!r}") from error
    if batch.num_rows != event.rows or batch.schema != SCHEMAS.get(event.table):
        raise DamagedPart(f"{path} has other rows or other columns than it had when it was written")
    return event.table, batch
