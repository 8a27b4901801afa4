"""A table of histories: rows in Spark, or Parquet files that this process can open.

Rows are processed by a function of Arrow batches. Spark tasks apply it to Spark's rows, or to files that they open
themselves, so that no row passes through the JVM. Small results of local files need no Spark job at all.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from math import ceil
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from checkers.spark.driver import first_line
from checkers.stored.sources import escape_glob
from harness.common.errors import UnreadableInput
from harness.history_files.url import Url

Batches = Iterator[pa.RecordBatch]
BatchFunction = Callable[[Batches], Batches]
BATCH_ROWS = 1_000_000
"""The largest number of rows in a batch of a file."""
SPANS = pa.schema(
    [
        ("run", pa.int64()),
        ("path", pa.string()),
        ("group", pa.int32()),
        ("part", pa.int32()),
        ("parts", pa.int32()),
    ]
)
"""A part of a row group of a Parquet file, with the number of its history."""


class DamagedFile(ValueError):
    """A part of a file cannot be read."""

    def __init__(self, path: str, error: Exception) -> None:
        super().__init__(f"error while reading file {path}: {first_line(error)}")
        self.path = path


class HistoryTable(Protocol):
    """All rows of some histories. The first column is `run`."""

    def frame(self) -> DataFrame:
        """Return the rows as a DataFrame."""
        ...

    def in_tasks(self, act: BatchFunction, form: pa.Schema, columns: Sequence[str]) -> DataFrame:
        """Apply `act` to these columns in Spark tasks. `run` must be the first column."""
        ...

    def collect(self, act: BatchFunction, form: pa.Schema, columns: Sequence[str]) -> pa.Table:
        """Apply `act` to these columns and collect the result."""
        ...


@dataclass(frozen=True)
class SparkTable:
    """Rows in Spark."""

    rows: DataFrame

    def frame(self) -> DataFrame:
        return self.rows

    def in_tasks(self, act: BatchFunction, form: pa.Schema, columns: Sequence[str]) -> DataFrame:
        return self.rows.select(*columns).mapInArrow(act, from_arrow_schema(form))

    def collect(self, act: BatchFunction, form: pa.Schema, columns: Sequence[str]) -> pa.Table:
        return self.in_tasks(act, form, columns).toArrow()


@dataclass(frozen=True)
class FileTable:
    """Parquet files that every task can open, each with the number of its history."""

    spark: SparkSession
    form: pa.Schema
    files: Sequence[tuple[int, Path]]

    def frame(self) -> DataFrame:
        return scan(self.spark, self.form, self.files)

    def in_tasks(self, act: BatchFunction, form: pa.Schema, columns: Sequence[str]) -> DataFrame:
        """Each task opens its own files. A single row group is split among tasks."""
        groups = [
            {"run": run, "path": str(path), "group": group}
            for run, path in self.files
            for group in range(pq.read_metadata(path).num_row_groups)
        ]
        parts = ceil(self.spark.sparkContext.defaultParallelism / max(len(groups), 1))
        spans = [group | {"part": part, "parts": parts} for group in groups for part in range(parts)]
        stored_form = self.form

        def read(batches: Batches) -> Batches:
            return act(_read((span for batch in batches for span in batch.to_pylist()), stored_form, columns))

        frame = self.spark.createDataFrame(pa.Table.from_pylist(spans, SPANS))
        return frame.mapInArrow(read, from_arrow_schema(form))

    def collect(self, act: BatchFunction, form: pa.Schema, columns: Sequence[str]) -> pa.Table:
        """Read the files without Spark. Raises `UnreadableInput` for a damaged file."""
        spans = (
            {"run": run, "path": str(path), "group": group, "part": 0, "parts": 1}
            for run, path in self.files
            for group in range(pq.read_metadata(path).num_row_groups)
        )
        try:
            return pa.Table.from_batches(act(_read(spans, self.form, columns)), form)
        except DamagedFile as error:
            raise UnreadableInput(f"{error.path} is damaged: a part of it cannot be read") from error


def scan(spark: SparkSession, form: pa.Schema, files: Iterable[tuple[int, Path | Url]]) -> DataFrame:
    """Return the rows of Parquet files at paths or URLs, read by Spark."""
    read = spark.read.schema(from_arrow_schema(form))
    numbered = [
        read.parquet(escape_glob(path)).withColumn("run", F.lit(run).cast("bigint")) for run, path in files
    ]
    return reduce(DataFrame.unionByName, numbered) if numbered else spark.createDataFrame(form.empty_table())


def union_tables(table: HistoryTable, other_table: HistoryTable) -> HistoryTable:
    """Return the rows of both tables."""
    if isinstance(table, FileTable) and isinstance(other_table, FileTable):
        return FileTable(table.spark, table.form, [*table.files, *other_table.files])
    return SparkTable(table.frame().unionByName(other_table.frame()))


def _read(spans: Iterable[dict[str, object]], form: pa.Schema, columns: Sequence[str]) -> Batches:
    """Yield the columns of each span. Each part of a row group gets its share of the batches."""
    wanted = pa.schema([form.field(name) for name in columns])
    assert wanted.names[0] == "run"
    for span in spans:
        try:
            file = pq.ParquetFile(span["path"], page_checksum_verification=True)
            group, part, parts = (int(str(span[name])) for name in ("group", "part", "parts"))
            size = min(BATCH_ROWS, max(ceil(file.metadata.row_group(group).num_rows / parts), 1))
            batches = file.iter_batches(size, row_groups=[group], columns=wanted.names[1:])
            for number, rows in enumerate(batches):
                if number % parts == part:
                    run = pa.repeat(pa.scalar(span["run"], pa.int64()), len(rows))
                    yield pa.RecordBatch.from_arrays([run, *rows.columns], schema=wanted)
        except (OSError, pa.ArrowException) as error:
            raise DamagedFile(str(span["path"]), error) from error
