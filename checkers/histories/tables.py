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
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from checkers.external_tables import LOST, Cycles, ExternalTables
from checkers.findings import FINDING
from checkers.histories.by_key import (
    FOUND,
    OPERATION,
    PIECES,
    RECORD_OPERATION,
    by_key,
    make_deal,
    make_prove,
    sends_in_doubt,
)
from checkers.histories.graph import make_components
from checkers.histories.packs import FOLLOWED, LINES, READ, Pack, read_packs
from checkers.histories.table import (
    ASSIGNS,
    Batches,
    HistoryTable,
    Numbers,
    any_run_has,
    collect,
    uncommitted,
)
from checkers.histories.table import turns as turns_of
from checkers.spark.frames import checkpoint, local_table
from harness.record.history_form import INFO, MICRO, OK, OPS

TURNS = pa.schema([OPS.field(name) for name in ("run", "process", "op", "keys", "rebalanced")])
"""Operations that change the keys of their process (`keys`; null: they do not), or that saw a rebalance."""
SIBLINGS = pa.schema([MICRO.field(name) for name in ("run", "op", "key", "value", "offset")])
_RECORD = pa.struct([MICRO.field(name) for name in ("key", "value", "offset")])
RECORDS = pa.schema([("reference", pa.int64()), ("record", _RECORD), ("following", _RECORD)])


def make_external(
    ops: HistoryTable,
    micro: HistoryTable,
    counts: Numbers,
    examples: int,
    beside: Executor,
    *,
    phase: Callable[[str], None] = lambda name: None,
    session: Callable[[], SparkSession] = SparkSession.active,
) -> ExternalTables:
    """Make the shared tables of histories whose tables have the form of `harness.record.history_form`.

    At most `examples` of each name of `components` have a cycle.

    Args:
        counts: the result of `checkers.histories.table.count_operations`
        beside: finds the cycles. If the graph is connected, a single task does that; meanwhile other tasks and queries
            use the other processors
        phase: is called with the name of each phase when it begins
        session: waits for Spark. It is called after the records have been computed, in two threads
    """
    phase("records, key by key")
    uncommitted_reads = None
    if any_run_has(counts, "uncommitted"):
        uncommitted_reads = collect(ops, uncommitted, OPERATION, ["run", "op", "isolation"])
    certain = not (any_run_has(counts, "info") or any_run_has(counts, "open") or uncommitted_reads)
    found = make_pieces(micro, certain=certain, uncommitted=uncommitted_reads).by_group(by_key, FOUND)
    packs = found.part("pack")

    def cycles() -> Cycles:
        components, too_large = make_components(ops, packs, examples)
        spark = session()
        if components is None:
            return Cycles(local_table(spark, FINDING.empty_table()), too_large)
        return Cycles(_for_queries(components), too_large)

    made_cycles = beside.submit(cycles)
    spark = session()
    keyed = make_keyed(found)
    return ExternalTables(
        steps=keyed.steps,
        counted=keyed.counted,
        jumps=make_jumps(keyed.jumps, ops, turns=any_run_has(counts, "turns")),
        siblings=make_siblings(keyed.steps, packs),
        uncommitted=local_table(spark, uncommitted_reads or OPERATION.empty_table()),
        packs=packs,
        made_cycles=made_cycles,
    )


@dataclass(frozen=True)
class KeyedTables:
    """The tables of `FOUND` that hold what is unusual."""

    steps: DataFrame
    jumps: DataFrame
    counted: DataFrame


def make_pieces(micro: HistoryTable, *, certain: bool, uncommitted: pa.Table | None = None) -> HistoryTable:
    """Return PIECES of all micro-operations.

    Args:
        certain: the outcome of every operation is known, and none read uncommitted records. Otherwise two more passes
            find out which operations committed: those of which a value was ok-read as a committed record.
        uncommitted: run and op of the operations that read uncommitted records, if there are any
    """
    if certain:
        return micro.in_tasks(make_deal(None, None), PIECES, MICRO.names)
    doubtful = collect(
        micro, sends_in_doubt, RECORD_OPERATION, ["run", "key", "value", "op", "polled", "outcome"]
    )
    proven = OPERATION.empty_table()
    if len(doubtful):
        columns = ["run", "key", "value", "op", "polled", "outcome"]
        proven = collect(micro, make_prove(doubtful, uncommitted), OPERATION, columns)
    return micro.in_tasks(make_deal(proven, uncommitted), PIECES, MICRO.names)


def make_keyed(found: HistoryTable) -> KeyedTables:
    """Return the tables for queries."""
    return KeyedTables(*(_for_queries(found.part(name)) for name in ("step", "jump", "counted")))


def _for_queries(table: HistoryTable) -> DataFrame:
    """Return the rows for Spark's queries. If they are few, Spark gets them as values, and knows which tables are
    empty.
    """
    few = table.rows_if_few()
    return table.frame() if few is None else local_table(SparkSession.active(), few)


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
        .frame()
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

    return checkpoint(  # three checkers use them
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


def make_siblings(steps: DataFrame, packs: HistoryTable) -> DataFrame:
    """Return the ok-read records of operations that have a lost record. Such operations are few, or the history is
    clearly invalid.
    """
    lost = steps.where("first").where(LOST).select(F.expr(f"run * {LINES} + writer").alias("writer"))
    writers = np.unique(lost.toArrow()["writer"].to_numpy())
    if not len(writers):
        return local_table(steps.sparkSession, SIBLINGS.empty_table())
    return _for_queries(packs.in_tasks(_written_by(writers), SIBLINGS))


def _written_by(writers: np.ndarray) -> Callable[[Batches], Batches]:
    def select(batches: Batches) -> Batches:
        for _, pack in read_packs(batches):
            at = np.flatnonzero(((pack.flags & READ) != 0) & np.isin(pack.writer, writers))
            line = pack.writer[at]
            columns = {"run": line // LINES, "op": line % LINES} | _records(pack, at)
            yield pa.RecordBatch.from_pydict(columns, SIBLINGS)

    return select


def _records(pack: Pack, at: np.ndarray) -> dict[str, np.ndarray | pa.Array]:
    """Return records of a pack as arrays; the offset is null if it is not known."""
    offset = pack.offset[at]
    return {"key": pack.key[at], "value": pack.value[at], "offset": pa.array(offset, mask=offset < 0)}


def records_of(packs: HistoryTable, references: Set[int]) -> dict[int, dict[str, dict[str, int | None]]]:
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
            records, following = (
                pa.StructArray.from_arrays(list(map(pa.array, r.values())), fields=list(_RECORD))
                for r in pair
            )
            columns = [pa.array(references_of_pack), records, following]
            yield pa.RecordBatch.from_arrays(columns, schema=RECORDS)

    rows = collect(packs, look_up, RECORDS).to_pylist()
    return {row.pop("reference"): row for row in rows}
