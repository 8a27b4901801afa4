"""Reading the tables of stored runs: one scan for each table, however many runs there are."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from weakref import WeakKeyDictionary

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from checkers.spark.checkpoint import local_columns, local_rows, local_table
from checkers.spark.partitions import coalesce_if_single
from harness.common.errors import UnreadableInput
from harness.model.promises import Promises
from harness.model.vocabulary import Premise
from harness.record.parquet_reader import parts_of_parquet, read_parquet
from harness.record.schema import HISTORY, LOG, unfit

READ_TOGETHER = 2
"""Tables that are looked up at a time: Spark takes some 15 ms for each."""
INLINE_ROWS = 10_000
"""A table of at most so many rows, of all runs together, is read here and goes with each query that looks at it: Spark
needs no job to read it or to send it on, and leaves out of a plan what comes of an empty one.
"""
CLOCK_MARGIN_MS = 50.0
"""How far two readings of one clock may stand apart before a delivery counts as too early."""


_TEXTS = pa.list_(pa.string())


@dataclass(frozen=True)
class StoredRun:
    """A run to be judged: where its tables lie, and what they cannot tell."""

    run: int  # as the column `run` has it
    folder: Path  # holds history/ and perhaps log/; several runs may share one
    wall_ms_at_zero: float | None = None  # wall clock at run time 0; None: no two clocks are compared
    allowed: Mapping[str, str] = field(default_factory=dict)  # anomalies that are permitted, and by whom
    incomplete: tuple[str, ...] = ()  # why the run's evidence is cut short: absence proves nothing then
    had_log: bool = False  # the brokers' witness was taken: it must be there
    promises: Promises | None = None  # None: the run's promises are not known
    healed_ns: int | None = None  # run time at which the last fault was healed; None: nobody knows
    clock_drift_ms: float | None = 0.0  # the wall clock's step against the monotonic one; None: not measured
    session_ms: int | None = None  # the session time-out of the pipeline's consumers; None: not known
    broken_premises: frozenset[Premise] = frozenset()  # by the run's faults, or by where it ran
    refused_logs: Mapping[str, str] = field(
        default_factory=dict
    )  # by topic, what the cluster said where it did not give its log
    goals: tuple[str, ...] = ()  # keys of the coverage that the run's goals ask for
    blind: bool = False  # judged as if its workers had kept no journals
    unjournaled: bool = False  # a stage of it keeps none
    correlated: bool = False  # outputs of it are joined to their inputs by what they hold
    topics: frozenset[str] = frozenset()  # of the pipeline, as it is described; empty: not known
    transactional_topics: frozenset[str] = frozenset()  # topics that only transactional stages write
    drained: bool = True  # every stage had taken all of its inputs before it was stopped
    rested_ms: float | None = None  # the wall clock when nothing moved any more, where no sentinel says it

    @property
    def journaled(self) -> bool:
        """True if every stage keeps journals, and the journals are used."""
        return not (self.blind or self.unjournaled)

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
        """Whether the brokers' witness is there."""
        return (self.folder / "log").is_dir()


Sources = Mapping[str, DataFrame]
_FILES: WeakKeyDictionary[DataFrame, tuple[Sequence[Path], pa.Schema]] = WeakKeyDictionary()
"""The files of the tables that are just what was recorded."""


def read_sources(spark: SparkSession, runs: Sequence[StoredRun]) -> Sources:
    """Every table of `harness.record.schema` for all the runs, and `runs`; raises `UnreadableInput`.

    `runs` has a row for each: run, wall_ms (null: not known), whole (absence may be judged), healed_ns,
    session_ms (null: not known), rested_ms, blind, journaled, drained, transactional_topics, tables, free_stages (as in
    `StoredRun` and its promises).
    A folder may hold no run but those judged.
    """
    folders = sorted({run.folder for run in runs})
    logged = sorted({run.folder for run in runs if run.has_log})
    rooms = ((folders, "history", HISTORY), (logged, "log", LOG))
    pool = ThreadPoolExecutor(max_workers=READ_TOGETHER, thread_name_prefix="sources")
    try:
        scanned = {
            table: pool.submit(_scan, spark, [folder / room for folder in holding], table, schema)
            for holding, room, tables in rooms
            for table, schema in tables.items()
        }
        sources = {table: one.result() for table, one in scanned.items()}
    finally:
        pool.shutdown(cancel_futures=True)  # of no use where one of them is damaged
    rows = pa.table(
        {
            "run": pa.array([run.run for run in runs], pa.int64()),
            "wall_ms": pa.array([run.one_clock_ms for run in runs], pa.float64()),
            "whole": pa.array([not run.incomplete for run in runs], pa.bool_()),
            "healed_ns": pa.array([run.healed_ns for run in runs], pa.int64()),
            "session_ms": pa.array([run.session_ms for run in runs], pa.int64()),
            "rested_ms": pa.array([run.rested_ms for run in runs], pa.float64()),
            "blind": pa.array([run.blind for run in runs], pa.bool_()),
            "journaled": pa.array([run.journaled for run in runs], pa.bool_()),
            "drained": pa.array([run.drained for run in runs], pa.bool_()),
            "transactional_topics": pa.array([sorted(run.transactional_topics) for run in runs], _TEXTS),
            "tables": pa.array([list(run.promises.tables) if run.promises else [] for run in runs], _TEXTS),
            "free_stages": pa.array(
                [list(run.promises.free_stages) if run.promises else [] for run in runs], _TEXTS
            ),
        }
    )
    return {**sources, "runs": local_table(spark, rows)}


def any_unjournaled(s: Sources) -> bool:
    """True if a stage of any of the runs keeps no journals. If not, what only such stages need is not planned."""
    return any(row["journaled"] is False for row in local_rows(s["stages"]))


def count_rows(runs: Sequence[StoredRun]) -> int:
    """Of all their tables, by the files' own count; of a leader's batch the records, for each gets a row."""
    return sum(_count(path) for path in {path for run in runs for path in _tables(run)})


def _tables(run: StoredRun) -> Iterator[Path]:
    """The files of its tables that are there."""
    for room, of in (("history", HISTORY), ("log", LOG)):
        paths = (run.folder / room / f"{table}.parquet" for table in of)
        yield from (path for path in paths if path.exists())


def _count(path: Path) -> int:
    rows: int = _footer(path).num_rows
    if path.stem != "batches":
        return rows
    try:
        read = read_parquet(path, ["leader", "base_offset", "last_offset"])
        led = read.filter(read["leader"])
        records = pc.sum(pc.subtract(led["last_offset"], led["base_offset"])).as_py() or 0
    except (OSError, pa.ArrowException) as error:
        raise UnreadableInput(f"{path} is damaged: a part of it cannot be read") from error
    return rows + max(records, 0)


def _scan(spark: SparkSession, folders: Sequence[Path], table: str, schema: pa.Schema) -> DataFrame:
    """One table from all folders, with the schema that it must have."""
    wanted = from_arrow_schema(schema)
    paths = [folder / f"{table}.parquet" for folder in folders]
    rows = sum(_checked(path, table).num_rows for path in paths)
    if rows <= INLINE_ROWS:
        frame = local_table(
            spark, pa.concat_tables([schema.empty_table(), *(_read(path, schema) for path in paths)])
        )
    else:
        frame = coalesce_if_single(spark.read.schema(wanted).parquet(*map(escape_glob, paths)))
        _FILES[frame] = paths, schema
    return frame


def read_columns(frame: DataFrame, names: Sequence[str], where: str = "") -> Iterator[pa.Table]:
    """These columns of a table, here, part by part; `where`: one of them, which must be true. Spark is asked for those
    alone that it has to compute. Raises `UnreadableInput`.
    """
    if frame in _FILES:
        paths, schema = _FILES[frame]
        wanted = pa.schema([schema.field(name) for name in names])
        parts: Iterator[pa.Table] = chain.from_iterable(_parts(path, wanted) for path in paths)
    else:
        parts = iter([local_columns(frame, names, where)])
    yield from (part.filter(part[where]) if where else part for part in parts)


def _read(path: Path, schema: pa.Schema) -> pa.Table:
    """A whole file; raises `UnreadableInput`."""
    return pa.concat_tables([schema.empty_table(), *_parts(path, schema)])


def _parts(path: Path, schema: pa.Schema) -> Iterator[pa.Table]:
    """The same, part by part; its columns in the order of `schema`."""
    try:
        for part in parts_of_parquet(path, schema.names):
            yield part.select(schema.names).cast(schema)
    except (OSError, pa.ArrowException) as error:
        raise UnreadableInput(f"{path} is damaged: a part of it cannot be read") from error


def escape_glob(path: Path | str) -> str:
    """A path as Spark takes it for just that: it would look for others where it has `[`, `{`, `*` or `?`."""
    return re.sub(r"([\\*?\[\]{}])", r"\\\1", str(path))


def _checked(path: Path, table: str) -> pq.FileMetaData:
    """The file's footer, so that a damaged file is named before any job starts; raises `UnreadableInput`."""
    footer = _footer(path)
    column = unfit(table, footer.schema.to_arrow_schema())
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
