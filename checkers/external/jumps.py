"""Add to the jumps of `checkers.external.by_key.jumps` whether the process changed its keys between the two steps."""

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from checkers.external.operations import ASSIGNS
from checkers.external.operations import turns as turns_of
from checkers.external.table import Batches, HistoryTable
from harness.history_files.schema import INFO, OK, OPS

SKIPS = "index > before + 1"
BACK = "index < before + 1"


TURNS = pa.schema([OPS.field(name) for name in ("run", "process", "op", "keys", "rebalanced")])
"""Operations that change the keys of their process (`keys`; null: they do not), or that saw a rebalance."""


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
