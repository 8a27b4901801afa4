"""Who depends on whom: the edges of the dependency graph, from the steps of a history.

An edge goes from an operation to one that depends on it: run, src, dst, kind, key, value, following.

`wr`   src wrote a value, and dst read it
`ww`   src wrote a value, and dst the following one in the version order
`rw`   src read a value, its last of the key, and dst wrote the following one: src had not seen it

Readers and writers of every outcome count, as in Jepsen's checker, if they completed. Process and realtime
edges are not made here: they follow from the operations themselves (`checkers.graph.components`).
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from checkers.graph.names import RW, WR, WW
from harness.history_files.schema import OPEN


def make_edges(steps: DataFrame) -> DataFrame:
    """All wr, ww and rw edges of `steps` (see `checkers.told`); none from an operation to itself."""
    reads = steps.where("polled and writer is not null").where(F.col("writer_outcome") != OPEN)
    no_value = F.lit(None).cast("bigint")
    edges = _edge(reads, F.col("writer"), F.col("op"), F.lit(WR), no_value)
    completed = F.col("writer_outcome") != OPEN
    versions = (
        steps.where("first and index is not null")
        .where(completed)
        .select("run", "key", "value", "index", "writer", F.lit(None).cast("bigint").alias("reader"))
    )
    last_reads = (
        steps.where("polled")
        .groupBy("run", "key", "op")
        .agg(F.max(F.struct("n", "index", "value")).alias("last"))
        .where("last.index is not null")
        .select(
            "run",
            "key",
            "last.value",
            "last.index",
            F.lit(None).cast("bigint").alias("writer"),
            F.col("op").alias("reader"),
        )
    )
    ahead = Window.partitionBy("run", "key").orderBy("index").rangeBetween(1, 1)
    followed = (
        versions.unionByName(last_reads)
        .withColumn("next_writer", F.max("writer").over(ahead))
        .withColumn("following", F.max(F.when(F.col("writer").isNotNull(), F.col("value"))).over(ahead))
        .where("next_writer is not null")
    )
    kind = F.when(F.col("reader").isNull(), F.lit(WW)).otherwise(F.lit(RW))
    return edges.unionByName(
        _edge(followed, F.coalesce("writer", "reader"), F.col("next_writer"), kind, F.col("following"))
    )


def _edge(rows: DataFrame, src: Column, dst: Column, kind: Column, following: Column) -> DataFrame:
    return rows.select(
        "run",
        src.alias("src"),
        dst.alias("dst"),
        kind.alias("kind"),
        "key",
        "value",
        following.alias("following"),
    ).where("src != dst")
