"""What a final reader read, as columns: part files beside its journal, which tabulation joins.

A part is an Arrow file of one table. It is written beside its name, and takes the name once it is complete; then
an event `part` in the journal says how many rows it has, and its CRC-32:

    {"index":9,"time":5,"type":"part","table":"polls","file":"0-polls.arrow","rows":65536,"crc":7}

A file that no event names was not finished, and is nobody's. One that an event names, and that is gone or damaged,
is evidence that is missing, as a line would be that was taken out of the journal.
"""

import shutil
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from harness.record.events import PartWritten
from harness.record.journal import Journal
from harness.record.parquet_writer import CHUNK_ROWS, RowBuffer
from harness.record.schema import HISTORY

_ADDED = {
    "polls": ("run", "role", "promised"),
    "records": ("run",),
    "expected": ("run", "group"),
}
"""Columns that tabulation adds: they are the same for all rows, or follow from another."""
SCHEMAS: Mapping[str, pa.Schema] = {
    table: pa.schema([column for column in HISTORY[table] if column.name not in added])
    for table, added in _ADDED.items()
}
"""The tables of which there are parts. `tp` is the run's number of a partition, `op` counts the reader's operations."""


class DamagedPart(Exception):
    """A part that is gone, or is not as its reader wrote it."""


class PartWriter:
    """Collects rows by table, and writes a part of each table whenever there are enough."""

    def __init__(self, journal: Journal, folder: Path) -> None:
        self._journal = journal
        self._folder = folder
        self._columns = {table: RowBuffer(schema) for table, schema in SCHEMAS.items()}
        self._written = 0
        folder.mkdir()

    def extend(self, table: str, count: int, *columns: object) -> None:
        """Take rows, as `RowBuffer` does."""
        columns_of = self._columns[table]
        columns_of.extend(count, *columns)
        if len(columns_of) >= CHUNK_ROWS:
            self._cut(table)

    def finish(self) -> None:
        """Write what is left."""
        for table, columns in self._columns.items():
            if len(columns):
                self._cut(table)

    def _cut(self, table: str) -> None:
        batch = self._columns[table].take()
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
    """Take away what an earlier attempt of the same reader has left."""
    journal.unlink(missing_ok=True)
    if parts_folder(journal).exists():
        shutil.rmtree(parts_folder(journal))


def parts_folder(journal: Path) -> Path:
    """Where the parts of a journal lie."""
    return journal.with_suffix("")


def read_part(
    folder: Path,
    event: PartWritten,
    first_op: int,
    same: Mapping[str, object],
    group_of: Callable[[str], str | None],
) -> tuple[str, pa.RecordBatch]:
    """Read a part and complete its rows.

    Args:
        folder: Where the parts of the journal lie.
        event: What the journal says of the part.
        first_op: The run's number of the reader's first operation.
        same: Cells that all rows have: of `run`, `role` and `promised`.
        group_of: The group of a stage, by the stage's name.

    Returns:
        The table that the part belongs to, and its rows as that table has them.

    Raises:
        DamagedPart: The part is gone, or is not as its reader wrote it.
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
            columns[field.name] = pa.repeat(pa.scalar(same[field.name], field.type), batch.num_rows)
    return table, pa.record_batch([columns[field.name] for field in HISTORY[table]], schema=HISTORY[table])


def _stored(folder: Path, event: PartWritten) -> tuple[str, pa.RecordBatch]:
    """A part as its reader wrote it."""
    path = folder / Path(event.file).name
    try:
        content = path.read_bytes()
        if zlib.crc32(content) != event.crc:
            raise DamagedPart(f"{path} is not as it was written")
        with pa.ipc.open_file(pa.BufferReader(content)) as reader:
            batch = reader.get_batch(0)
    except (OSError, pa.ArrowException) as error:
        raise DamagedPart(f"a part of {folder} cannot be read: {error!r}") from error
    if batch.num_rows != event.rows or batch.schema != SCHEMAS.get(event.table):
        raise DamagedPart(f"{path} has not the rows or the columns that it had")
    return event.table, batch
