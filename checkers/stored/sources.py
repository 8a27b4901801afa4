"""Read the tables of stored runs, with one scan for each table of any number of runs."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from checkers.spark.frames import local_columns, local_rows, local_table
from checkers.spark.settings import coalesce_if_single
from harness.common.errors import UnreadableInput
from harness.model.promises import Promises
from harness.model.vocabulary import Premise
from harness.record.parquet import iterate_parquet, read_parquet
from harness.record.schema import HISTORY, LOG, find_mismatch
from harness.results.reasons import Reason
from harness.results.verdict import FaultReport

READ_TOGETHER = 2
"""The number of tables that are opened at a time. Spark takes some 15 ms for each."""
INLINE_ROWS = 10_000
"""A table with at most this many rows (of all runs together) is read in Python and inlined into the queries.

Spark then needs no job to read or to distribute it, and removes the parts of a plan that are made from an empty table.
"""
CLOCK_MARGIN_MS = 50.0
"""How far two readings of one clock may differ before a delivery counts as too early, in ms."""


_TEXTS = pa.list_(pa.string())
_GROWTHS = pa.list_(pa.struct([("topic", pa.string()), ("planned", pa.int64()), ("times", pa.int64())]))
PASSED_OVER = pa.list_(pa.struct([("group", pa.string()), ("topic", pa.string()), ("partition", pa.int64())]))


@dataclass(frozen=True)
class Growth:
    """How a topic got more partitions during the run."""

    planned: int  # the number of its partitions at the start
    times: int  # how often it got more, or at most how often if that is not known


@dataclass(frozen=True)
class StoredRun:
    """A run to check: where its tables are, and facts that the tables do not hold."""

    run: int  # the number of the run in the column `run`
    folder: Path  # has history/ and perhaps log/; several runs may share one
    wall_ms_at_zero: float | None = None  # the wall clock at run time 0; None: clocks are not compared
    allowed: Mapping[str, str] = field(default_factory=dict)  # anomalies that are permitted, and by whom
    incomplete: tuple[str, ...] = ()  # why the evidence was cut short: an absence proves nothing then
    problems: tuple[
        Reason, ...
    ] = ()  # what the run itself says that its evidence lacks; gaps may follow from it
    had_log: bool = False  # the run stored the broker log, so it must exist
    promises: Promises | None = None  # None: the run's promises are not known
    healed: bool = False  # it is known when each fault was healed
    clock_drift_ms: float | None = (
        0.0  # how far the wall clock moved against the monotonic one; None: not measured
    )
    broken_premises: frozenset[Premise] = frozenset()  # broken by faults of the run, or by its cluster
    refused_logs: Mapping[str, str] = field(default_factory=dict)
    """By topic, what the cluster answered when it did not give the log."""
    goals: tuple[str, ...] = ()  # keys of the coverage that the run's goals need
    blind: bool = False  # checked as if its workers had kept no journals
    without_journals: bool = False  # a stage keeps no journals
    correlated: bool = False  # outputs are joined to their inputs by a correlation key
    topics: frozenset[str] = frozenset()  # of the pipeline, as described; empty: not known
    transactional_topics: frozenset[str] = frozenset()  # topics that only transactional stages write to
    growths: Mapping[str, Growth] = field(default_factory=dict)  # of topics that got more partitions
    passed_over: Mapping[str, Sequence[tuple[str, int]]] = field(default_factory=dict)
    """By group: the partitions that a topic got during the run, and that the group did not read in the time it had."""
    faults: Sequence[FaultReport] = ()  # what the run reports of its faults
    drained: bool = True  # every stage had processed all of its inputs before it was stopped
    rested_ms: float | None = (
        None  # the wall clock when the pipeline had come to an end, if there are no sentinels
    )

    @property
    def journaled(self) -> bool:
        """True if every stage keeps journals, and the journals are used."""
        return not (self.blind or self.without_journals)

    @property
    def drift_known(self) -> bool:
        """True if the drift of the wall clock was measured."""
        return self.clock_drift_ms is not None and math.isfinite(self.clock_drift_ms)

    @property
    def drifted(self) -> bool:
        """True if the wall clock moved so far that times of brokers and of clients cannot be compared."""
        return self.clock_drift_ms is not None and self.clock_drift_ms > CLOCK_MARGIN_MS / 2

    @property
    def one_clock_ms(self) -> float | None:
        """The wall clock at run time 0 in ms; None if it cannot be compared with the brokers' clock."""
        comparable = self.drift_known and not self.drifted and Premise.ONE_CLOCK not in self.broken_premises
        return self.wall_ms_at_zero if comparable else None

    @property
    def has_log(self) -> bool:
        """True if a broker log is stored."""
        return (self.folder / "log").is_dir()


Sources = Mapping[str, DataFrame]
_FILES: WeakKeyDictionary[DataFrame, tuple[Sequence[Path], pa.Schema]] = WeakKeyDictionary()
"""The files of each table that Spark reads from files. Smaller tables are inlined."""


RECORDED_RUNS = pa.schema(
    [
        ("run", pa.int64()),
        *((name, pa.float64()) for name in ("wall_ms", "rested_ms")),
        *((name, pa.bool_()) for name in ("whole", "blind", "journaled", "drained")),
        *((name, _TEXTS) for name in ("transactional_topics", "tables", "free_stages")),
        ("growths", _GROWTHS),
        ("passed_over", PASSED_OVER),
    ]
)
"""The columns of the recorded table `runs`.

Columns:
    run
    wall_ms: the wall clock at run time 0; null: not comparable
    whole: the evidence was not cut short, so an absence proves something
    rested_ms: null: not known
    blind, journaled, drained, transactional_topics: as in `StoredRun`
    tables, free_stages: of the run's promises
    growths: array of the topics that got more partitions during the run [topic, planned, times]
    passed_over: array [group, topic, partition]
"""


def _row(run: StoredRun) -> dict[str, Any]:
    return {
        "run": run.run,
        "wall_ms": run.one_clock_ms,
        "whole": not run.incomplete,
        "rested_ms": run.rested_ms,
        **{name: getattr(run, name) for name in ("blind", "journaled", "drained")},
        "transactional_topics": sorted(run.transactional_topics),
        "tables": list(run.promises.tables) if run.promises else [],
        "free_stages": list(run.promises.free_stages) if run.promises else [],
        "growths": [{"topic": topic, **vars(growth)} for topic, growth in run.growths.items()],
        "passed_over": [
            {"group": group, "topic": topic, "partition": partition}
            for group, partitions in run.passed_over.items()
            for topic, partition in partitions
        ],
    }


def read_sources(
    spark: SparkSession, runs: Sequence[StoredRun], *, inline_rows: int = INLINE_ROWS
) -> Sources:
    """Read every table of `harness.record.schema` for all the runs, and add the table `runs`.

    A folder must not hold runs that are not in `runs`.

    Args:
        inline_rows: Spark reads tables with more rows from files, and smaller ones are inlined

    Raises:
        UnreadableInput: a table is missing or damaged.
    """
    folders = sorted({run.folder for run in runs})
    logged = sorted({run.folder for run in runs if run.has_log})
    kinds = ((folders, "history", HISTORY), (logged, "log", LOG))
    pool = ThreadPoolExecutor(max_workers=READ_TOGETHER, thread_name_prefix="sources")
    try:
        scanned = {
            table: pool.submit(
                _scan, spark, [folder / kind for folder in folders_of_kind], table, schema, inline_rows
            )
            for folders_of_kind, kind, tables in kinds
            for table, schema in tables.items()
        }
        sources = {table: future.result() for table, future in scanned.items()}
    finally:
        pool.shutdown(cancel_futures=True)  # if one table is damaged, the others are not needed
    rows = pa.Table.from_pylist([_row(run) for run in runs], RECORDED_RUNS)
    return {**sources, "runs": local_table(spark, rows)}


def any_without_journals(s: Sources) -> bool:
    """True if a stage of any run keeps no journals. If not, the queries for such stages are left out of the plans."""
    return any(row["journaled"] is False for row in local_rows(s["stages"]))


def count_rows(runs: Sequence[StoredRun]) -> int:
    """Count the rows of all tables of the runs, from the footers of the files. A batch of a leader counts once for each
    of its records.
    """
    return sum(_count(path) for run_folder in {run.folder for run in runs} for path in _tables(run_folder))


def _tables(run_folder: Path) -> Iterator[Path]:
    """Yield the paths of the tables that are in the folder of a run."""
    for folder, tables in (("history", HISTORY), ("log", LOG)):
        paths = (run_folder / folder / f"{table}.parquet" for table in tables)
        yield from (path for path in paths if path.exists())


def _count(path: Path) -> int:
    rows: int = _footer(path).num_rows
    if path.stem != "batches":
        return rows
    try:
        batches = read_parquet(path, ["leader", "base_offset", "last_offset"])
        leader_batches = batches.filter(batches["leader"])
        records = (
            pc.sum(pc.subtract(leader_batches["last_offset"], leader_batches["base_offset"])).as_py() or 0
        )
    except (OSError, pa.ArrowException) as error:
        raise UnreadableInput(f"{path} is damaged: a part of it cannot be read") from error
    return rows + max(records, 0)


def _scan(
    spark: SparkSession, folders: Sequence[Path], table: str, schema: pa.Schema, inline_rows: int
) -> DataFrame:
    """Open one table in all folders, with the schema that it must have."""
    spark_schema = from_arrow_schema(schema)
    paths = [folder / f"{table}.parquet" for folder in folders]
    rows = sum(_checked_footer(path, table).num_rows for path in paths)
    if rows <= inline_rows:
        frame = local_table(
            spark, pa.concat_tables([schema.empty_table(), *(_read(path, schema) for path in paths)])
        )
    else:
        frame = coalesce_if_single(spark.read.schema(spark_schema).parquet(*map(escape_glob, paths)))
        _FILES[frame] = paths, schema
    return frame


def read_columns(frame: DataFrame, names: Sequence[str], where: str = "") -> Iterator[pa.Table]:
    """Yield record batches of the columns `names`, filtered by the boolean column `where`.

    Files are read without Spark. Only a table that Spark has to compute is collected from it. Raises `UnreadableInput`.
    """
    if frame in _FILES:
        paths, schema = _FILES[frame]
        part_schema = pa.schema([schema.field(name) for name in names])
        parts: Iterator[pa.Table] = chain.from_iterable(_parts(path, part_schema) for path in paths)
    else:
        parts = iter([local_columns(frame, names, where)])
    yield from (part.filter(part[where]) if where else part for part in parts)


def _read(path: Path, schema: pa.Schema) -> pa.Table:
    """Read a whole file. Raises `UnreadableInput`."""
    return pa.concat_tables([schema.empty_table(), *_parts(path, schema)])


def _parts(path: Path, schema: pa.Schema) -> Iterator[pa.Table]:
    """Yield the record batches of a file, with the columns of `schema`. Raises `UnreadableInput`."""
    try:
        for part in iterate_parquet(path, schema.names):
            for field in schema:
                if field.name not in part.column_names:  # an earlier version wrote the table
                    part = part.append_column(field, pa.nulls(part.num_rows, field.type))  # noqa: PLW2901
            yield part.select(schema.names).cast(schema)
    except (OSError, pa.ArrowException) as error:
        raise UnreadableInput(f"{path} is damaged: a part of it cannot be read") from error


def escape_glob(path: Path | str) -> str:
    """Escape a path for Spark, which takes `[`, `{`, `*` and `?` for patterns."""
    return re.sub(r"([\\*?\[\]{}])", r"\\\1", str(path))


def _checked_footer(path: Path, table: str) -> pq.FileMetaData:
    """Read the file's footer, so that a damaged file is reported before any job starts. Raises `UnreadableInput`."""
    footer = _footer(path)
    column = find_mismatch(table, footer.schema.to_arrow_schema())
    if column is not None:
        raise UnreadableInput(
            f"{path} is no {table} table: column {column} is missing, of another type, or unknown"
        )
    return footer


def _footer(path: Path) -> pq.FileMetaData:
    try:
        return pq.read_metadata(path)
    except (OSError, pa.ArrowException) as error:
        raise UnreadableInput(f"{path} cannot be read: {str(error).splitlines()[0]}") from error
