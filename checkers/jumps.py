"""The jumps that `checkers.by_key.jumps` has found, and what the process was told between the two steps."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from harness.history_files.schema import INFO, OK

SKIPS = "index > before + 1"
BACK = "index < before + 1"


def make_jumps(found: DataFrame, ops: DataFrame) -> DataFrame:
    """With `forgotten`: the process was assigned, or subscribed to, other keys between the two operations;
    and `rebalanced`: a rebalance took or gave the key while the operation was under way.
    """
    assigns = F.col("f").isin("assign", "subscribe") & F.col("outcome").isin(OK, INFO)
    turns = (
        ops.withColumn("keys", F.when(assigns, F.coalesce("keys", F.array())))
        .where("keys is not null or size(rebalanced) > 0")
        .groupBy("run", "process")
        .agg(F.collect_list(F.struct("op", "keys", "rebalanced")).alias("turns"))
    )

    def forgets(turn: Column) -> Column:
        between_them = (turn["op"] > F.col("op_before")) & (turn["op"] < F.col("op"))
        return between_them & ~F.array_contains(turn["keys"], F.col("key"))

    def rebalances(turn: Column) -> Column:
        return (turn["op"] == F.col("op")) & F.array_contains(turn["rebalanced"], F.col("key"))

    return (
        found.join(turns, on=["run", "process"], how="left")
        .withColumn("forgotten", F.coalesce(F.exists("turns", forgets), F.lit(False)))
        .withColumn("rebalanced", F.coalesce(F.exists("turns", rebalances), F.lit(False)))
        .drop("turns")
    )
