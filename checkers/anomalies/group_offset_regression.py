"""Group offset regression: a group's committed offset of a partition went down.

Counted are the offset commits that took effect: those of committed transactions and those outside any.
Their order is that of their records in `__consumer_offsets`, where all of a group stand in one partition;
not that of the markers, for an offset takes effect by the position of its record. An offset that was
deleted (a tombstone) ends the comparison.

Illegal because the next member begins at the lower offset and takes inputs again.
Evidence: the leader's log of `__consumer_offsets`.

    log of __consumer_offsets: group g, a->8     commit
    log of __consumer_offsets: group g, a->5     abort
    log of __consumer_offsets: group g, a->6     commit     <- group-offset-regression

Blind spot: what was compacted away; an administrator who sets a group back does the same on purpose.
Reference: "late offset commit", a TxnOffsetCommit that outlives its transaction; KIP-447.
"""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from checkers.findings.build import finding
from checkers.stored.partitions import EFFECTIVE
from checkers.stored.tables import Tables


def group_offset_regression(t: Tables) -> DataFrame:
    """One row for each step down."""
    commits = (
        t.positions.where("commit is not null")
        .where(F.col("fate").isin(*EFFECTIVE))
        .select(
            "run",
            F.col("offset").alias("log_offset"),
            F.struct(
                F.col("tp").alias("tp"),
                F.col("offset").alias("offset"),
                "commit.op",
                "commit.committed",
                "producer_id",
                "epoch",
                "fate",
            ).alias("commit"),
            "commit.group",
            F.col("commit.tp").alias("tp"),
        )
    )
    order = Window.partitionBy("run", "group", "tp").orderBy("log_offset")
    steps = commits.withColumn("before", F.lag("commit").over(order))
    return finding(
        steps.where("commit.committed < before.committed"),
        "group-offset-regression",
        order=["tp", "log_offset"],
        ops=F.array("commit.op", "before.op"),
        group=F.col("group"),
        input=F.struct(F.col("tp").alias("tp"), F.col("commit.committed").alias("offset")),
        committed=F.col("commit.committed"),
        committed_before=F.col("before.committed"),
        record=F.col("commit"),
        record_before=F.col("before"),
    )
