"""Unmarked partition: a transaction was completed, and one of its partitions has no marker of it.

In a partition into which a producer id has written, there are fewer markers of that id than completed
transactions of that id that had named the partition when they were prepared.

Illegal because Complete means that every partition has its marker. Without it the records stay open, or
share the fate of the producer's next transaction, whatever that is.
Evidence: the whole transaction log, and the leader's log of the partition, uncompacted and from its first
offset. Markers are counted against completions because a coordinator that moves may write one again: more
of them than transactions say nothing, fewer of them do.

    transaction log: id Ongoing [x, y], PrepareCommit [x, y], CompleteCommit
    log of x: record of producer 7 at offset 4, its marker at offset 5
    log of y: record of producer 7 at offset 9, no marker          <- unmarked-partition

Blind spot: a repeated marker of the same producer in that partition makes up for a missing one.
Reference: none is known; seen on Kafka 4.3.1, where a coordinator passes over a partition that has no
leader.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.findings.build import finding
from checkers.stored.producers import COMPLETE
from checkers.stored.tables import Tables


def unmarked_partition(t: Tables) -> DataFrame:
    """One row for each producer id and partition."""
    completed = t.states.where(F.col("state").isin(*COMPLETE)).select(
        "run",
        F.explode("before.tps").alias("tp"),
        F.col("before.producer_id").alias("producer_id"),
        F.struct("log_tp", "log_offset", "epoch", "state", "transactional_id").alias("completion"),
    )
    written = t.batches.where("not compacted and log_start = 0").select(
        "run", "tp", "producer_id", "markers", F.struct("base_offset", "epoch").alias("batch")
    )
    found = (
        completed.unionByName(written, allowMissingColumns=True)
        .groupBy("run", "tp", "producer_id")
        .agg(
            F.count("completion").alias("completions"),
            F.max("completion").alias("completion"),
            F.max("markers").alias("markers"),
            F.max("batch").alias("batch"),
        )
        .where("markers < completions")
    )
    return finding(
        found,
        "unmarked-partition",
        order=["tp", "producer_id"],
        absence=True,
        record=F.struct(F.col("tp").alias("tp"), F.col("batch.base_offset").alias("offset")),
        producer_id=F.col("producer_id"),
        epoch=F.col("batch.epoch"),
        transactional_id=F.col("completion.transactional_id"),
        markers=F.col("markers"),
        completions=F.col("completions"),
        last_completion=F.struct(
            F.col("completion.log_tp").alias("tp"),
            F.col("completion.log_offset").alias("offset"),
            F.col("completion.epoch").alias("epoch"),
            F.col("completion.state").alias("state"),
        ),
    )
