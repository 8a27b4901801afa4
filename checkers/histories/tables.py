"""The shared tables of an external history, from what its clients recorded.

All checks except the cycles use one shuffle by key. It is enough, because rows with the same value, at the same offset,
or of one process in one key share the key. `checkers.histories.by_key` has the computation of a task on its keys.

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

from collections.abc import Callable, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from checkers.external_tables import LOST, Cycles, ExternalTables
from checkers.histories.by_key import FOUND, PIECES, ROWS, by_key, deal, deal_settled
from checkers.histories.graph import make_components
from checkers.histories.packs import FOLLOWED, LINES, READ, Pack, read_packs
from checkers.histories.table import ASSIGNS, Batches, HistoryTable, Numbers, any_run_has, uncommitted
from checkers.histories.table import turns as turns_of
from checkers.spark.frames import checkpoint
from harness.record.history_form import INFO, MICRO, OK, OPEN, OPS

TURNS = pa.schema([OPS.field(name) for name in ("run", "process", "op", "keys", "rebalanced")])
"""Operations that change the keys of their process (`keys`; null: they do not), or that saw a rebalance."""
KEY = ("run", "key")
FEW = 500_000
"""A table with at most this many rows is broadcast instead of shuffled."""
FEW_HERE = 20_000
"""Tables with at most this many rows together are collected."""
NAMED = pa.schema([OPS.field("run"), OPS.field("op")])
"""Operations."""
SIBLINGS = "run bigint, op bigint, key bigint, value bigint, offset bigint"
RECORDS = (
    "reference bigint, record struct<key: bigint, value: bigint, offset: bigint>, "
    "following struct<key: bigint, value: bigint, offset: bigint>"
)


def make_external(
    ops: HistoryTable,
    micro: HistoryTable,
    counts: Numbers,
    examples: int,
    *,
    phase: Callable[[str], None] = lambda name: None,
) -> ExternalTables:
    """Make the shared tables of histories whose tables have the form of `harness.record.history_form`.

    At most `examples` of each name of `components` have a cycle.

    `counts`: the result of `checkers.histories.table.count_operations`.

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


def make_jumps(jumps: DataFrame, ops: HistoryTable, *, turns: bool) -> DataFrame:
    """Return the jumps with two more columns.

    `forgotten`: the process assigned or subscribed to other keys between the two operations. `rebalanced`: a
    rebalance took or gave the key during the operation.

    `turns`: true if any operation has such changes.
    """
    if not turns:
        return jumps.withColumns({"forgotten": F.lit(False), "rebalanced": F.lit(False)})
    by_process = (
        ops.in_tasks(_turns, TURNS, [*TURNS.names, "f", "outcome"])
        .groupBy("run", "process")
        .agg(F.collect_list(F.struct("op", "keys", "rebalanced")).alias("turns"))
    )

    def forgets(turn: Column) -> Column:
        between_them = turn["op"].between(
            F.col("op_before"), F.col("op")
        )  # the two operations name no keys themselves
        return between_them & ~F.array_contains(turn["keys"], F.col("key"))

    def rebalances(turn: Column) -> Column:
        return (turn["op"] == F.col("op")) & F.array_contains(turn["rebalanced"], F.col("key"))

    return (
        jumps.join(by_process, on=["run", "process"], how="left")
        .withColumn("forgotten", F.coalesce(F.exists("turns", forgets), F.lit(False)))
        .withColumn("rebalanced", F.coalesce(F.exists("turns", rebalances), F.lit(False)))
        .drop("turns")
    )


def _turns(batches: Batches) -> Batches:
    for rows in batches:
        changes = rows.filter(pa.array(turns_of(rows)))
        assigns = pc.and_(
            pc.is_in(changes["f"], ASSIGNS), pc.is_in(changes["outcome"], pa.array([OK, INFO], pa.int8()))
        )
        nothing, none = pa.scalar([], TURNS.field("keys").type), pa.scalar(None, TURNS.field("keys").type)
        keys = pc.if_else(assigns, pc.coalesce(changes["keys"], nothing), none)
        columns = {name: changes[name] for name in TURNS.names} | {"keys": keys}
        yield pa.RecordBatch.from_arrays(list(columns.values()), schema=TURNS)


def make_siblings(steps: DataFrame, packs: DataFrame) -> DataFrame:
    """Return the ok-read records of operations that have a lost record. Such operations are few, or the history is
    clearly invalid.
    """
    lost = steps.where("first").where(LOST).select(F.expr(f"run * {LINES} + writer").alias("writer"))
    writers = np.unique(lost.toArrow()["writer"].to_numpy())
    if not len(writers):
        return packs.sparkSession.createDataFrame([], SIBLINGS)
    return checkpoint(packs.mapInArrow(_written_by(writers), SIBLINGS))


def _written_by(writers: np.ndarray) -> Callable[[Batches], Batches]:
    def select(batches: Batches) -> Batches:
        for _, pack in read_packs(batches):
            at = np.flatnonzero(((pack.flags & READ) != 0) & np.isin(pack.writer, writers))
            line = pack.writer[at]
            yield pa.RecordBatch.from_pydict({"run": line // LINES, "op": line % LINES} | _records(pack, at))

    return select


def _records(pack: Pack, at: np.ndarray) -> dict[str, np.ndarray | pa.Array]:
    """Return records of a pack as arrays; the offset is null if it is not known."""
    offset = pack.offset[at]
    return {"key": pack.key[at], "value": pack.value[at], "offset": pa.array(offset, mask=offset < 0)}


def records_of(packs: DataFrame, references: Set[int]) -> dict[int, dict[str, dict[str, int | None]]]:
    """Return by reference the records of edges: `record`, and `following`, the next version.

    If a record has no next version, `following` is the record itself. Each has key, value and offset.
    """
    if not references:
        return {}
    wanted = np.array(sorted(references), np.int64)

    def look_up(batches: Batches) -> Batches:
        for number, pack in read_packs(batches):
            references_of_pack = wanted[wanted >> 32 == number]
            at = references_of_pack & 0xFFFFFFFF
            followed = (pack.flags[at] & FOLLOWED) != 0
            pair = (_records(pack, rows_of_pack) for rows_of_pack in (at, np.where(followed, at + 1, at)))
            record_struct, following_struct = (
                pa.StructArray.from_arrays(list(map(pa.array, r.values())), list(r)) for r in pair
            )
            yield pa.RecordBatch.from_pydict(
                {"reference": references_of_pack, "record": record_struct, "following": following_struct}
            )

    rows = packs.mapInArrow(look_up, RECORDS).toArrow().to_pylist()
    return {row.pop("reference"): row for row in rows}
