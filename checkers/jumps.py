"""Jumps: where a process went through the records of a key otherwise than one by one.

A shared table of a history from elsewhere, made once for polls and once for sends. Few steps are jumps, so
the checks that take it apart cost nothing.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from harness.history_files.schema import INFO, OK

SKIPS = "index > before + 1"
BACK = "index < before + 1"


def make_jumps(steps: DataFrame, moves: Column) -> DataFrame:
    """The steps whose index is not one more than that of the step before: run, key, process, op, n, value,
    index, and of the step before op_before, value_before, before (its index); inside: both belong to one
    operation.

    Before the first step of an operation is the last step of the last operation of the process that
    touched the key and for which `moves` holds. Where one of the two has no index nothing is said.
    """
    in_order = Window.partitionBy("run", "key", "process").orderBy("op", "n")
    earlier = in_order.rowsBetween(Window.unboundedPreceding, -1)
    here = F.struct("op", "value", "index")
    same_op = F.coalesce(F.lag("op").over(in_order) == F.col("op"), F.lit(False))
    return (
        steps.select("run", "key", "process", "op", "n", "value", "index", "outcome")
        .withColumn("inside", same_op)
        .withColumn("neighbour", F.lag(here).over(in_order))
        .withColumn("moved", F.last(F.when(moves, here), ignorenulls=True).over(earlier))
        .withColumn("from", F.when(F.col("inside"), F.col("neighbour")).otherwise(F.col("moved")))
        .where("index != from.index + 1")
        .select(
            "run",
            "key",
            "process",
            "op",
            "n",
            "value",
            "index",
            "outcome",
            "inside",
            F.col("from.op").alias("op_before"),
            F.col("from.value").alias("value_before"),
            F.col("from.index").alias("before"),
        )
    )


def not_forgotten(pairs: DataFrame, ops: DataFrame) -> DataFrame:
    """Without those between which the process was assigned, or subscribed to, other keys."""
    assigned = (
        ops.where(F.col("f").isin("assign", "subscribe") & F.col("outcome").isin(OK, INFO))
        .groupBy("run", "process")
        .agg(F.collect_list(F.struct("op", "keys")).alias("assigned"))
    )

    def forgets(assign: Column) -> Column:
        between_them = (assign["op"] > F.col("op_before")) & (assign["op"] < F.col("op"))
        return between_them & ~F.array_contains(F.coalesce(assign["keys"], F.array()), F.col("key"))

    return (
        pairs.join(assigned, on=["run", "process"], how="left")
        .where(~F.coalesce(F.exists("assigned", forgets), F.lit(False)))
        .drop("assigned")
    )
