"""Replica divergence: replicas hold different bytes where all must hold the same.

Below the high watermark, and between a replica's own log start and log end, it has another batch than
another replica, or none: another checksum or leader epoch. A batch that can no longer be read is none.
Judged are the leader and the followers that hold a batch of its last leader epoch: they have been in step
with it since, and have cut off what they had of their own. One that was still behind is not judged.

Illegal because what is committed is the same on every replica: after the next failover other records would
be read at these offsets.
Evidence: the headers of the batches of each replica; their checksums cover everything else. Compacted
partitions are not judged: each replica cleans its own.

    broker 1, leader of x: a batch at offset 4, checksum 17
    broker 2: a batch at offset 4, checksum 18                      <- replica-divergence
    high watermark of x: 9

Blind spot: bytes that changed under a checksum that stayed, for payloads are not read; what stands above
the last batch that can be read (a replica that cannot be read up to the high watermark makes a run unknown).
Reference: Kafka's documentation, "Replication"; KIP-101, KIP-279.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from checkers.findings.build import finding
from checkers.stored.tables import Tables


def replica_divergence(t: Tables) -> DataFrame:
    """One row for each place at which they do not all hold the same."""
    held = F.struct("broker", "leader", "last_offset", "crc", "leader_epoch", "count", "producer_id", "epoch")

    def holds(one: Column) -> Column:
        """Whether a replica must hold the batch."""
        return (one["log_start"] <= F.col("base_offset")) & (F.col("last_offset") < one["end"])

    places = (
        t.headers.join(F.broadcast(_in_step(t)), on=["run", "tp"], how="inner")
        .where(F.exists("replicas", lambda one: (one["broker"] == F.col("broker")) & holds(one)))
        .groupBy("run", "tp", "base_offset")
        .agg(
            F.array_sort(F.collect_list(held)).alias("held"),
            F.max("last_offset").alias("last_offset"),
            F.any_value("replicas").alias("replicas"),
        )
        .withColumn("brokers", F.transform(F.filter("replicas", holds), lambda one: one["broker"]))
    )
    first = F.get("held", F.lit(0))

    def other(column: str) -> Column:
        return F.exists("held", lambda one: one[column] != first[column])

    differ = other("crc") | other("leader_epoch")
    lacking = F.array_except("brokers", F.transform("held", lambda one: one["broker"]))
    found = places.where(differ | (F.size(lacking) > 0))
    return finding(
        found,
        "replica-divergence",
        order=["tp", "base_offset"],
        record=F.struct("tp", F.col("base_offset").alias("offset")),
        replicas=F.col("held"),
        lacking=F.array_sort(lacking),
    )


def _in_step(t: Tables) -> DataFrame:
    """run, tp; replicas [broker, log_start, end]: those that must hold the same, each from where to where."""
    last = t.headers.groupBy("run", "tp", "broker").agg(F.max("leader_epoch").alias("last_epoch"))
    replica = F.struct("broker", "last_epoch", "log_start", F.least("log_end", "high_watermark").alias("end"))
    judged = t.tps.where("logged and not compacted and followers > 0").select("run", "tp")
    return (
        t.replicas.where("high_watermark is not null")
        .join(F.broadcast(last), on=["run", "tp", "broker"], how="inner")
        .groupBy("run", "tp")
        .agg(
            F.max(F.when(F.col("leader"), F.col("last_epoch"))).alias("led"),
            F.collect_list(replica).alias("replicas"),
        )
        .join(F.broadcast(judged), on=["run", "tp"], how="left_semi")
        .withColumn("replicas", F.filter("replicas", lambda one: one["last_epoch"] == F.col("led")))
        .select("run", "tp", "replicas")
    )
