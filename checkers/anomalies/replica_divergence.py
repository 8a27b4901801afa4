"""Replica divergence: replicas hold different bytes where all must hold the same.

Below the high watermark, above the highest of their log starts and below the lowest of their log ends, one
replica has another batch than another, or none: another checksum or leader epoch. Judged are the
leader and the followers that hold a batch of its last leader epoch: they have been in step with it
since, and have cut off what they had of their own. One that was still behind is not judged.

Illegal because what is committed is the same on every replica: after the next failover other records would
be read at these offsets.
Evidence: the headers of the batches of each replica; their checksums cover everything else. Compacted
partitions are not judged: each replica cleans its own.

    broker 1, leader of x: a batch at offset 4, checksum 17
    broker 2: a batch at offset 4, checksum 18                      <- replica-divergence
    high watermark of x: 9

Blind spot: bytes that changed under a checksum that stayed, for payloads are not read; what stands above
the end of the shortest replica.
Reference: Kafka's documentation, "Replication"; KIP-101, KIP-279.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from checkers.findings.build import finding
from checkers.stored.tables import Tables


def replica_divergence(t: Tables) -> DataFrame:
    """One row for each place at which they do not all hold the same."""
    held = F.struct("broker", "leader", "last_offset", "crc", "leader_epoch", "count", "producer_id", "epoch")
    places = (
        t.headers.join(F.broadcast(_in_step(t)), on=["run", "tp"], how="inner")
        .where("base_offset >= start and last_offset < end and array_contains(brokers, broker)")
        .groupBy("run", "tp", "base_offset", "brokers")
        .agg(F.array_sort(F.collect_list(held)).alias("held"))
    )
    first = F.get("held", F.lit(0))

    def other(column: str) -> Column:
        return F.exists("held", lambda one: one[column] != first[column])

    differ = other("crc") | other("leader_epoch")
    found = places.where(differ | (F.size("held") < F.size("brokers")))
    return finding(
        found,
        "replica-divergence",
        order=["tp", "base_offset"],
        record=F.struct("tp", F.col("base_offset").alias("offset")),
        replicas=F.col("held"),
        lacking=F.array_except("brokers", F.transform("held", lambda one: one["broker"])),
    )


def _in_step(t: Tables) -> DataFrame:
    """run, tp; brokers, start, end: the replicas that must hold the same, and from where to where."""
    last = t.headers.groupBy("run", "tp", "broker").agg(F.max("leader_epoch").alias("last_epoch"))
    replica = F.struct("broker", "last_epoch", "log_start", F.least("log_end", "high_watermark").alias("end"))
    judged = t.tps.where("logged and not compacted and followers > 0").select("run", "tp")
    return (
        t.replicas.where("damaged is null and high_watermark is not null")
        .join(F.broadcast(last), on=["run", "tp", "broker"], how="inner")
        .groupBy("run", "tp")
        .agg(
            F.max(F.when(F.col("leader"), F.col("last_epoch"))).alias("led"),
            F.collect_list(replica).alias("replicas"),
        )
        .join(F.broadcast(judged), on=["run", "tp"], how="left_semi")
        .withColumn("replicas", F.filter("replicas", lambda one: one["last_epoch"] == F.col("led")))
        .select(
            "run",
            "tp",
            F.array_sort(F.transform("replicas", lambda one: one["broker"])).alias("brokers"),
            F.array_max(F.transform("replicas", lambda one: one["log_start"])).alias("start"),
            F.array_min(F.transform("replicas", lambda one: one["end"])).alias("end"),
        )
    )
