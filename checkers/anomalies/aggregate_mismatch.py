"""Aggregate mismatch: the last sum of a key is not the sum of its inputs.

For each key of a topic of sums: the last visible record of the key says another sum than that of what the
visible inputs below the group's final committed offset add to the key. A key whose inputs add up to something
and which has no record at all is one too.

Illegal because sum and offset are committed together: the sum holds each input below the offset, once, and
none above.
Evidence: what the workload says that each input adds, and that each record of the topic says; the fates of
records and of offset commits.

    a@0 adds 3 to k, a@1 adds 4 to k
    T1  poll a@0 and a@1, send sum k=4, send_offsets a->2, commit     ok      <- aggregate-mismatch

Blind spot: two errors that cancel each other out; keys whose records stand in several partitions.
Reference: Wang et al. 2021, "Consistency and Completeness" (SIGMOD); KIP-129.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.findings.build import finding
from checkers.stored.tables import Tables


def aggregate_mismatch(t: Tables) -> DataFrame:
    """One row for each key."""
    added = (
        t.inputs.where("visible")
        .select("run", "tp", "offset", F.explode("adds").alias("add"))
        .select("run", "tp", "offset", "add.group", "add.topic", "add.key", "add.adds")
        .join(F.broadcast(t.groups), on=["run", "group", "tp"], how="inner")
        .where((F.col("offset") >= F.col("first")) & (F.col("offset") < F.col("final")))
        .select("run", "topic", "key", "adds")
    )
    sums = t.positions.where("found and visible and state is not null and not sentinel").select(
        "run", "topic", "key", F.struct("offset", "tp", "state", "acks").alias("last")
    )
    keys = (
        added.unionByName(sums, allowMissingColumns=True)
        .groupBy("run", "topic", "key")
        .agg(
            F.coalesce(F.sum("adds"), F.lit(0)).alias("due"),
            F.count("adds").alias("inputs"),
            F.max("last").alias("last"),
            F.min("last.tp").alias("lowest"),
            F.max("last.tp").alias("highest"),
        )
        .join(F.broadcast(t.topics), on=["run", "topic"], how="inner")
    )
    whole = F.col("topic_ru_end") & (F.col("topic_logged") | F.col("topic_rc_end"))
    wrong = F.when(F.col("last").isNull(), F.col("due") != 0).otherwise(
        (F.col("lowest") == F.col("highest")) & (F.col("last.state") != F.col("due"))
    )
    return finding(
        keys.where(whole & wrong),
        "aggregate-mismatch",
        order=["last.tp", "last.offset"],
        ops=F.coalesce(F.transform("last.acks", lambda ack: ack["op"]), F.array().cast("array<bigint>")),
        absence=True,
        output_topic=F.col("topic"),
        key=F.col("key"),
        state=F.col("last.state"),
        due=F.col("due"),
        inputs=F.col("inputs"),
        record=F.struct("last.tp", "last.offset"),
    )
