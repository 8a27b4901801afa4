"""The shared tables of an external history, from what its clients recorded.

All checks except the cycles use one shuffle by key. It is enough, because rows with the same value, at the same offset,
or of one process in one key share the key. `checkers.external.by_key` has the computations of a task on its keys.

A *record* is a pair of key and value. Its *index* is the dense rank of its offset among all known offsets of the
key, without gaps. The rules are those of Jepsen's checker:

- The offset of a value is known from the polls of all completions, and from the sends of operations that must have
  committed. These are `ok` operations, and `info` operations of which a value was ok-read (received by an ok
  operation). An operation that never completed counts as `info`. Polls that read uncommitted records do not count,
  because these may have been aborted.
- The writer of a value is the last completion that names it.
- If a value has several offsets, or an offset has several values, its place in the order is not known. Then the index
  is null, and only `lowest` and `highest` say where the value is.
"""

from collections.abc import Callable, Mapping, Set
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from checkers.external.by_key.shuffle import PIECES, ROWS, deal, deal_settled
from checkers.external.graph.make import Cycles, make_components
from checkers.external.jumps import make_jumps
from checkers.external.key_kernel import FOUND, by_key
from checkers.external.operations import Numbers, any_run_has, uncommitted
from checkers.external.records import make_siblings
from checkers.external.table import HistoryTable
from checkers.spark.checkpoint import checkpoint
from harness.history_files.schema import FAIL, INFO, MICRO, OK, OPEN, OPS

__all__ = ["FAIL", "INFO", "OK", "OPEN", "ExternalTables", "make_external"]
KEY = ("run", "key")
FEW = 500_000
"""A table with at most this many rows is broadcast instead of shuffled."""
FEW_HERE = 20_000
"""Tables with at most this many rows together are collected."""


@dataclass(frozen=True)
class ExternalTables:
    """The shared tables; `make_external` lists their columns. Some are computed in the background: reading them
    waits.
    """

    suffix: ClassVar = "_external"
    """The suffix of checker functions that use these tables."""

    steps: DataFrame
    counted: DataFrame
    packs: DataFrame
    uncommitted: DataFrame
    made_jumps: Future[DataFrame]
    made_siblings: Future[DataFrame]
    made_cycles: Future[Cycles]

    @property
    def jumps(self) -> DataFrame:
        """The steps of processes that do not go from a record to the next record."""
        return self.made_jumps.result()

    @property
    def siblings(self) -> DataFrame:
        """The ok-read records of operations that have a lost record."""
        return self.made_siblings.result()

    @property
    def components(self) -> DataFrame:
        """The named components of the dependency graph."""
        return self.made_cycles.result().components

    @property
    def too_large(self) -> Mapping[int, Set[int]]:
        """By run, the kinds of edges that `components` lacks in part."""
        return self.made_cycles.result().too_large

    @property
    def attempts(self) -> DataFrame:
        """One row for each record of `steps`: the columns that all its rows share."""
        return self.steps.where("first").select(*VALUE_COLUMNS)

    @property
    def reads(self) -> DataFrame:
        """The steps that read a record."""
        return self.steps.where("polled")


NAMED = pa.schema([OPS.field("run"), OPS.field("op")])
"""Operations."""
VALUE_COLUMNS = (
    "run", "key", "value", "lowest_offset", "lowest", "highest", "index", "bound", "writer",
    "writer_outcome", "due", "ok_read", "ok_sent", "passer", "passer_value", "passer_offset",
)  # fmt: skip


def make_external(
    ops: HistoryTable,
    micro: HistoryTable,
    counts: Numbers,
    examples: int,
    *,
    phase: Callable[[str], None] = lambda name: None,
) -> ExternalTables:
    """Make the shared tables of histories whose tables have the form of `harness.history_files.schema`.

    `counts`: the result of `checkers.external.operations.count_operations`.

    `steps` has one row for each micro-operation whose record is not ordinary (see `checkers.external.key_kernel`),
    or that read, as committed, a record that its own operation sent: run, key, value, offset, op, n, process,
    polled, outcome; rank (of its offset), clash (another value has its offset), own (its operation sent the
    record); of its record: lowest, highest, index, lowest_offset, writer, writer_outcome, due (the writer must
    have committed), ok_read, ok_sent (an ok operation sent it), first (true in one row of each record); of its
    key: bound, the highest index that was ok-read (for a record at several offsets, its first); passer,
    passer_value, passer_offset: the read that got farthest, only for records that are due and not ok-read.

    `jumps`: run, key, process, op, n, value, offset, index, outcome, polled; of the step before op_before,
    value_before, offset_before, before (its index); lost_writer (if all records between them are lost: the writer of
    the first), inside (both belong to one operation), forgotten, rebalanced: see `checkers.external.by_key.jumps` and
    `checkers.external.jumps`. `siblings`: run, op, key,
    value: the ok-read records of every operation that has a lost record. `components`: see
    `checkers.external.graph.make`; at most `examples` of each name have a cycle, and `too_large` says which edges
    it lacks. `counted`: run, records, read, in_place_of_another. `packs`: see
    `checkers.external.by_key.version_log`. `uncommitted`: run, op: the
    operations that read uncommitted records.

    `phase` is called with the name of each phase when it begins.
    """
    phase("records, key by key")
    uncommitted_reads = _uncommitted(ops) if any_run_has(counts, "uncommitted") else None
    certain = not (
        any_run_has(counts, "info") or any_run_has(counts, "open") or uncommitted_reads is not None
    )
    keyed = make_keyed(make_pieces(micro, certain=certain, uncommitted=uncommitted_reads))

    def cycles() -> Cycles:
        components = make_components(ops, keyed.packs, examples)
        return replace(components, components=checkpoint(components.components))

    def jumps() -> DataFrame:
        return checkpoint(
            make_jumps(keyed.jumps, ops, turns=any_run_has(counts, "turns"))
        )  # three checkers use them

    # If the graph is connected, a single task checks it; other tasks use the remaining processors meanwhile.
    pool = ThreadPoolExecutor(thread_name_prefix="external-tables")
    try:
        made_cycles, made_jumps = pool.submit(cycles), pool.submit(jumps)
        made_siblings = pool.submit(make_siblings, keyed.steps, keyed.packs)
    finally:
        pool.shutdown(wait=False)
    return ExternalTables(
        steps=keyed.steps,
        made_jumps=made_jumps,
        made_siblings=made_siblings,
        made_cycles=made_cycles,
        counted=keyed.counted,
        packs=keyed.packs,
        uncommitted=uncommitted_reads
        if uncommitted_reads is not None
        else keyed.packs.sparkSession.createDataFrame(NAMED.empty_table()),
    )


def _uncommitted(ops: HistoryTable) -> DataFrame:
    return checkpoint(ops.in_tasks(uncommitted, NAMED, ["run", "op", "isolation"]))


@dataclass(frozen=True)
class KeyedTables:
    """The tables that the one shuffle by key computes: those of `FOUND`."""

    steps: DataFrame
    jumps: DataFrame
    counted: DataFrame
    packs: DataFrame


def make_pieces(micro: HistoryTable, *, certain: bool, uncommitted: DataFrame | None = None) -> DataFrame:
    """Return PIECES of all micro-operations.

    `certain`: the outcome of every operation is known, and none read uncommitted records. Otherwise one more job finds
    out which operations committed. `uncommitted`: the operations that read uncommitted records, if any.
    """
    if certain:
        return micro.in_tasks(deal_settled, PIECES, MICRO.names)
    return (
        _committed(micro.frame(), uncommitted).select(*ROWS.names).mapInArrow(deal, from_arrow_schema(PIECES))
    )


def make_keyed(pieces: DataFrame) -> KeyedTables:
    """Compute the tables in one job over all micro-operations."""
    tables = checkpoint(pieces.repartition("group").mapInArrow(by_key, from_arrow_schema(FOUND)))
    small = _small(tables)
    return KeyedTables(small("step"), small("jump"), small("counted"), _part(tables, "pack"))


def _part(tables: DataFrame, name: str) -> DataFrame:
    """Return one of the tables of FOUND."""
    return tables.where(F.col(name).isNotNull()).select(f"{name}.*")


def _small(tables: DataFrame) -> Callable[[str], DataFrame]:
    """Return a function that selects one of the small tables. If they have few rows, the rows are collected, so that
    Spark knows which tables are empty.
    """
    small_tables = tables.where("pack is null").drop("pack")
    rows_of_all = small_tables.limit(FEW_HERE + 1).toArrow()
    if rows_of_all.num_rows > FEW_HERE:
        return partial(_part, tables)
    spark = tables.sparkSession

    def select(name: str) -> DataFrame:
        rows = pc.drop_null(rows_of_all[name])
        empty = pa.schema(list(FOUND.field(name).type)).empty_table()
        return spark.createDataFrame(pa.Table.from_struct_array(rows) if len(rows) else empty)

    return select


def _committed(micro: DataFrame, uncommitted: DataFrame | None) -> DataFrame:
    """Add `committed`: an operation has committed if one of its values was ok-read by an operation that reads
    committed records.
    """
    outcome, read_committed = F.col("outcome"), F.col("polled")
    if uncommitted is not None:
        reads_uncommitted = uncommitted.withColumn("asked", F.lit(True))
        micro = micro.join(
            _broadcast_if_few(reads_uncommitted, uncommitted.count()), on=["run", "op"], how="left"
        )
        read_committed = read_committed & F.col("asked").isNull()
    doubtful = checkpoint(
        micro.where(~F.col("polled") & outcome.isin(INFO, OPEN)).select(*KEY, "value", "op")
    )
    doubtful_count = doubtful.count()
    ok_reads = micro.where(read_committed & (outcome == OK)).select(*KEY, "value")
    proven = (
        ok_reads.join(_broadcast_if_few(doubtful, doubtful_count), on=[*KEY, "value"], how="inner")
        .select("run", "op")
        .distinct()
        .withColumn("proven", F.lit(True))
    )
    return (
        micro.join(_broadcast_if_few(proven, doubtful_count), on=["run", "op"], how="left")
        .withColumn(
            "committed",
            F.when(F.col("polled"), read_committed).otherwise(
                (outcome == OK) | F.coalesce("proven", F.lit(False))
            ),
        )
        .drop("proven", "asked")
    )


def _broadcast_if_few(rows: DataFrame, count: int) -> DataFrame:
    """Broadcast rows if they are few, so that the other side is not shuffled."""
    return F.broadcast(rows) if count <= FEW else rows
