"""A table of histories: rows in Spark, or Parquet files that this process can open. Counts and lookups of operations.

Rows are processed by a function of Arrow batches. Spark tasks apply it to Spark's rows, or to files that they open
themselves, so that no row passes through the JVM. Small results of local files need no Spark job at all.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import reduce
from math import ceil
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from checkers.histories.files import Url
from checkers.spark.driver import first_line
from checkers.stored.sources import escape_glob
from harness.common.errors import UnreadableInput
from harness.model.vocabulary import Isolation
from harness.record import history_form
from harness.record.history_form import OK, OUTCOMES

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
    """Parquet files that every task can open, each with the number of its history. None: its column `run` has it."""

    spark: SparkSession
    form: pa.Schema
    files: Sequence[tuple[int | None, Path]]
    owner: object = None  # keeps the files as long as this table

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
        spans: Iterable[dict[str, object]] = (
            {"run": run, "path": str(path), "group": group, "part": 0, "parts": 1}
            for run, path in self.files
            for group in range(pq.read_metadata(path).num_row_groups)
        )
        try:
            return pa.Table.from_batches(act(_read(spans, self.form, columns)), form)
        except DamagedFile as error:
            raise UnreadableInput(f"{error.path} is damaged: a part of it cannot be read") from error


def scan(spark: SparkSession, form: pa.Schema, files: Iterable[tuple[int | None, Path | Url]]) -> DataFrame:
    """Return the rows of Parquet files at paths or URLs, read by Spark."""
    read = spark.read.schema(from_arrow_schema(form))
    numbered = [
        rows if run is None else rows.withColumn("run", F.lit(run).cast("bigint"))
        for run, path in files
        for rows in [read.parquet(escape_glob(path))]
    ]
    return reduce(DataFrame.unionByName, numbered) if numbered else spark.createDataFrame(form.empty_table())


def union_tables(table: HistoryTable, other_table: HistoryTable) -> HistoryTable:
    """Return the rows of both tables."""
    if isinstance(table, FileTable) and isinstance(other_table, FileTable):
        owners = (table.owner, other_table.owner)
        return FileTable(table.spark, table.form, [*table.files, *other_table.files], owners)
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
            names = wanted.names if span["run"] is None else wanted.names[1:]
            batches = file.iter_batches(size, row_groups=[group], columns=names)
            for number, rows in enumerate(batches):
                if number % parts == part:
                    own = (
                        []
                        if span["run"] is None
                        else [pa.repeat(pa.scalar(span["run"], pa.int64()), len(rows))]
                    )
                    columns_of_rows = [*own, *(rows[name] for name in names)]
                    yield pa.RecordBatch.from_arrays(columns_of_rows, schema=wanted)
        except (OSError, pa.ArrowException) as error:
            raise DamagedFile(str(span["path"]), error) from error


EFFECTIVE = pa.array(history_form.EFFECTIVE)
ASSIGNS = pa.array(["assign", "subscribe"])
KNOWN = pa.array(history_form.KNOWN)
Numbers = dict[int, Counter[str]]
COUNTED = ("run", "outcome", "f", "isolation", "rebalanced")
"""The columns that are counted."""
COUNTS = pa.schema(
    [
        (name, pa.int64())
        for name in (
            "run",
            "ops",
            *OUTCOMES,
            "committed",
            "aborted",
            "subscribes",
            "turns",
            "uncommitted",
            "passed_over",
        )
    ]
)
"""By run. `turns`: operations that can change the keys of a process; `uncommitted`: operations that read uncommitted
records; `passed_over`: operations of unknown kinds.
"""


KINDS = pa.schema([("run", pa.int64()), ("f", pa.string()), ("many", pa.int64())])
MOST_KINDS = 10_000


def count_operations(ops: HistoryTable) -> Numbers:
    """Return by run the counts of `COUNTS`."""
    numbers: Numbers = {}
    for row in ops.collect(_count, COUNTS, COUNTED).to_pylist():
        numbers.setdefault(row.pop("run"), Counter()).update(row)
    return numbers


def kinds_passed_over(ops: HistoryTable, runs: Set[int]) -> dict[int, Counter[str]]:
    """Return by run the unknown kinds (`f`) of operations, and how many there are of each.

    Only the MOST_KINDS most frequent kinds of each batch are counted.
    """
    kinds: dict[int, Counter[str]] = {run: Counter() for run in runs}
    if runs:
        for row in ops.collect(_kinds(sorted(runs)), KINDS, ("run", "f")).to_pylist():
            kinds[row["run"]][row["f"]] += row["many"]
    return kinds


def _kinds(runs: list[int]) -> BatchFunction:
    wanted = pa.array(runs, pa.int64())

    def counted(batches: Batches) -> Batches:
        for rows in batches:
            unknown = pc.and_(pc.is_in(rows["run"], wanted), pc.invert(pc.is_in(rows["f"], KNOWN)))
            kinds = (
                pa.Table.from_batches([rows.filter(unknown)])
                .group_by(["run", "f"])
                .aggregate([([], "count_all")])
            )
            most_frequent = kinds.sort_by([("count_all", "descending")]).slice(0, MOST_KINDS)
            yield from (
                most_frequent.select(["run", "f", "count_all"])
                .rename_columns(KINDS.names)
                .cast(KINDS)
                .to_batches()
            )

    return counted


def any_run_has(numbers: Numbers, kind: str) -> bool:
    """Return whether any run has an operation of this kind."""
    return any(counts[kind] for counts in numbers.values())


def _count(batches: Batches) -> Batches:
    """Yield several rows for each run."""
    for rows in batches:
        runs, at = np.unique(rows["run"].to_numpy(), return_inverse=True)
        outcome, f = rows["outcome"].to_numpy(zero_copy_only=False), rows["f"]
        effective = is_true(pc.is_in(f, EFFECTIVE))
        kinds = {
            "ops": np.ones(len(rows), bool),
            **{name: outcome == code for code, name in enumerate(OUTCOMES)},
            "committed": (outcome == OK) & effective,
            "aborted": (outcome == OUTCOMES.index("fail")) & effective,
            "subscribes": is_true(pc.equal(f, "subscribe")),
            "turns": turns(rows),
            "uncommitted": is_true(pc.equal(rows["isolation"], Isolation.READ_UNCOMMITTED.value)),
            "passed_over": ~is_true(pc.is_in(f, KNOWN)),
        }
        counts = (np.bincount(at[matches], minlength=len(runs)) for matches in kinds.values())
        yield pa.RecordBatch.from_arrays([pa.array(runs), *map(pa.array, counts)], ["run", *kinds])


def turns(rows: pa.RecordBatch) -> np.ndarray:
    """Return for each row whether it can change the keys of a process, or saw a rebalance."""
    moved = pc.greater(pc.list_value_length(rows["rebalanced"]), 0)
    return is_true(pc.or_kleene(pc.is_in(rows["f"], ASSIGNS), moved))


def uncommitted(batches: Batches) -> Batches:
    """Yield run and op of the operations that read uncommitted records."""
    for rows in batches:
        reads_uncommitted = pc.equal(rows["isolation"], Isolation.READ_UNCOMMITTED.value)
        yield rows.filter(pc.fill_null(reads_uncommitted, False)).select(["run", "op"])


def lookup(
    table: HistoryTable, form: pa.Schema, key: str, wanted: Set[tuple[int, int]]
) -> dict[tuple[int, int], Mapping[str, Any]]:
    """Return the rows with a wanted run and key, by (run, key). One row is returned if several match."""
    if not wanted:
        return {}
    rows = table.collect(_choose(key, wanted), form, form.names).to_pylist()
    return {(row["run"], row[key]): row for row in rows}


def _choose(key: str, wanted: Set[tuple[int, int]]) -> BatchFunction:
    numbers = pa.array(sorted({number for _, number in wanted}), pa.int64())

    def choose(batches: Batches) -> Batches:
        for rows in batches:
            rows_with_number = rows.filter(pc.is_in(rows[key], numbers))
            matches = [
                pair in wanted
                for pair in zip(
                    rows_with_number["run"].to_pylist(), rows_with_number[key].to_pylist(), strict=True
                )
            ]
            yield rows_with_number.filter(pa.array(matches, pa.bool_()))

    return choose


def is_true(condition: pa.Array) -> np.ndarray:
    """Return the condition as numpy booleans; null is false."""
    return np.asarray(pc.fill_null(condition, False).to_numpy(zero_copy_only=False))
