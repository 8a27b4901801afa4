"""The named components of every run's dependency graph: one shared table of a history from elsewhere."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.graph.edges import make_edges
from checkers.graph.intervals import find_spans, within
from checkers.graph.kernel import COLUMNS, FOUND, OPERATION, name_components
from checkers.tables import keep
from harness.history_files.schema import OPEN

VERTICES = ("txn", "poll", "send")


def make_components(ops: DataFrame, steps: DataFrame, examples: int) -> DataFrame:
    """run, anomaly, position, ops, detail: one row for each component; the first of each have a cycle."""
    edges = keep(make_edges(steps))
    spans = find_spans(edges)
    if not spans:
        return edges.sparkSession.createDataFrame([], FOUND)
    inside = within(edges.withColumn("kind", F.col("kind").cast("int")), spans, "src", "dst")
    vertices = ops.where(F.col("f").isin(*VERTICES) & (F.col("outcome") != OPEN)).select(
        "run",
        F.col("op").alias("src"),
        F.col("invoked").alias("dst"),
        F.lit(OPERATION).alias("kind"),
        F.col("process").alias("key"),
        F.col("outcome").cast("bigint").alias("value"),
        F.lit(None).cast("bigint").alias("following"),
    )
    rows = inside.unionByName(within(vertices, spans, "src", "src"))
    return rows.select(*COLUMNS).repartition("run", "span").mapInArrow(name_components(examples), FOUND)
