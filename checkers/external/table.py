"""A table of histories, wherever it lies: rows that Spark has, or Parquet files that can be opened here.

What is done with the rows is a function of Arrow batches, so that it is written once: Spark's tasks apply it
to the rows that Spark hands them, or to files that they open themselves, so that no row passes through the
JVM; and of a file that is here, what comes to little can be had without any job.
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

from checkers.spark.jvm import first_line
from checkers.stored.sources import escape_glob
from harness.common.errors import UnreadableInput
from harness.history_files.url import Url

Batches = Iterator[pa.RecordBatch]
Act = Callable[[Batches], Batches]
HELD = 1_000_000
"""Rows in a batch of a file, at most."""
SPANS = pa.schema(
    [
        ("run", pa.int64()),
        ("path", pa.string()),
        ("group", pa.int32()),
        ("part", pa.int32()),
        ("parts", pa.int32()),
    ]
)
"""A part of a row group of a Parquet file, and the number of the history that it is of."""


class DamagedFile(ValueError):
    """A part of a file cannot be read."""

    def __init__(self, path: str, error: Exception) -> None:
        super().__init__(f"error while reading file {path}: {first_line(error)}")
        self.path = path


class HistoryTable(Protocol):
    """All rows of some histories; the first column is `run`."""

    def frame(self) -> DataFrame:
        """As Spark has them."""
        ...

    def in_tasks(self, act: Act, form: pa.Schema, columns: Sequence[str]) -> DataFrame:
        """What `act` makes of them, in Spark's tasks; of these columns, `run` the first of them."""
        ...

    def here(self, act: Act, form: pa.Schema, columns: Sequence[str]) -> pa.Table:
        """The same, brought here."""
        ...


@dataclass(frozen=True)
class SparkTable:
    """Rows that Spark has."""

    rows: DataFrame

    def frame(self) -> DataFrame:
        """They are."""
        return self.rows

    def in_tasks(self, act: Act, form: pa.Schema, columns: Sequence[str]) -> DataFrame:
        """A view."""
        return self.rows.select(*columns).mapInArrow(act, from_arrow_schema(form))

    def here(self, act: Act, form: pa.Schema, columns: Sequence[str]) -> pa.Table:
        """A job."""
        return self.in_tasks(act, form, columns).toArrow()


@dataclass(frozen=True)
class FileTable:
    """Parquet files that every task can open, each with the number that its history has here."""

    spark: SparkSession
    form: pa.Schema
    files: Sequence[tuple[int, Path]]

    def frame(self) -> DataFrame:
        """As Spark reads them."""
        return scan(self.spark, self.form, self.files)

    def in_tasks(self, act: Act, form: pa.Schema, columns: Sequence[str]) -> DataFrame:
        """A task opens what it is given; what is one row group alone is shared out all the same."""
        groups = [
            {"run": run, "path": str(path), "group": group}
            for run, path in self.files
            for group in range(pq.read_metadata(path).num_row_groups)
        ]
        parts = ceil(self.spark.sparkContext.defaultParallelism / max(len(groups), 1))
        spans = [group | {"part": part, "parts": parts} for group in groups for part in range(parts)]
        form_here = self.form

        def read(batches: Batches) -> Batches:
            return act(_read((span for batch in batches for span in batch.to_pylist()), form_here, columns))

        frame = self.spark.createDataFrame(pa.Table.from_pylist(spans, SPANS))
        return frame.mapInArrow(read, from_arrow_schema(form))

    def here(self, act: Act, form: pa.Schema, columns: Sequence[str]) -> pa.Table:
        """Without Spark; raises `UnreadableInput` for a file that is damaged."""
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
    """Tables that Spark reads, at a path or a URL."""
    read = spark.read.schema(from_arrow_schema(form))
    numbered = [
        read.parquet(escape_glob(path)).withColumn("run", F.lit(run).cast("bigint")) for run, path in files
    ]
    return reduce(DataFrame.unionByName, numbered) if numbered else spark.createDataFrame(form.empty_table())


def together(one: HistoryTable, other: HistoryTable) -> HistoryTable:
    """The rows of both."""
    if isinstance(one, FileTable) and isinstance(other, FileTable):
        return FileTable(one.spark, one.form, [*one.files, *other.files])
    return SparkTable(one.frame().unionByName(other.frame()))


def _read(spans: Iterable[dict[str, object]], form: pa.Schema, columns: Sequence[str]) -> Batches:
    """The columns of each span, `run` the first of them; each part has its share of the batches."""
    wanted = pa.schema([form.field(name) for name in columns])
    assert wanted.names[0] == "run"
    for span in spans:
        try:
            file = pq.ParquetFile(span["path"], page_checksum_verification=True)
            group, part, parts = (int(str(span[name])) for name in ("group", "part", "parts"))
            size = min(HELD, max(ceil(file.metadata.row_group(group).num_rows / parts), 1))
            batches = file.iter_batches(size, row_groups=[group], columns=wanted.names[1:])
            for number, rows in enumerate(batches):
                if number % parts == part:
                    run = pa.repeat(pa.scalar(span["run"], pa.int64()), len(rows))
                    yield pa.RecordBatch.from_arrays([run, *rows.columns], schema=wanted)
        except (OSError, pa.ArrowException) as error:
            raise DamagedFile(str(span["path"]), error) from error
