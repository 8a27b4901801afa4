"""By partition and offset: what the log holds in each place, and what became of it."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from checkers.stored.sources import Sources
from harness.history import Fate, Isolation, Role

EFFECTIVE = (Fate.COMMIT.value, Fate.PLAIN.value)


def effective(fate: Column) -> Column:
    """What a record's fate amounts to: commit (plain too), abort, open; null where there is no log."""
    return F.when(fate == Fate.PLAIN.value, F.lit(Fate.COMMIT.value)).otherwise(fate)


def make_tps(s: Sources) -> DataFrame:
    """run, tp, topic, partition, internal, compacted, is_input; ordered (every stage that reads it promises
    order); logged (the leader's log is here and whole), log_start, log_end, high_watermark, followers (how
    many other replicas are here), unreadable [broker, log_end, high_watermark] (one of them that is damaged, and
    cannot be read up to its high watermark); for the final readers rc (read committed) and ru: rc_first (where they
    began, or where the log begins, if that is higher), rc_next, rc_end (came to the sentinel), ru_first,
    ru_next, ru_end.
    """
    start = F.when(F.col("logged"), F.col("log_start"))
    return (
        s["partitions"]
        .join(F.broadcast(_leaders(s)), on=["run", "tp"], how="left")
        .join(F.broadcast(_readers(s)), on=["run", "tp"], how="left")
        .join(F.broadcast(_input_topics(s)), on=["run", "topic"], how="left")
        .select(
            "run",
            "tp",
            "topic",
            "partition",
            "internal",
            "compacted",
            F.coalesce("is_input", F.lit(False)).alias("is_input"),
            F.coalesce("ordered", F.lit(False)).alias("ordered"),
            F.coalesce("logged", F.lit(False)).alias("logged"),
            "log_start",
            "log_end",
            "high_watermark",
            F.coalesce("followers", F.lit(0)).alias("followers"),
            "unreadable",
            F.greatest("rc.first", start).alias("rc_first"),
            F.col("rc.next").alias("rc_next"),
            F.col("rc.sentinel_offset").isNotNull().alias("rc_end"),
            F.greatest("ru.first", start).alias("ru_first"),
            F.col("ru.next").alias("ru_next"),
            F.col("ru.sentinel_offset").isNotNull().alias("ru_end"),
        )
    )


def _leaders(s: Sources) -> DataFrame:
    """By partition, how far the log of its one leader goes, and a follower that cannot be read to the end."""
    # A torn tail above the high watermark is what a killed broker may leave: Kafka cuts it off.
    short = F.col("damaged").isNotNull() & F.coalesce(F.col("log_end") < F.col("high_watermark"), F.lit(True))
    log = F.struct(F.col("damaged").isNull().alias("logged"), "log_start", "log_end", "high_watermark")
    return (
        s["replicas"]
        .groupBy("run", "tp")
        .agg(
            F.min(F.when(F.col("leader"), log)).alias("log"),
            F.count(F.when(~F.col("leader"), F.lit(1))).alias("followers"),
            F.min(F.when(~F.col("leader") & short, F.struct("broker", "log_end", "high_watermark"))).alias(
                "unreadable"
            ),
        )
        .select("run", "tp", "log.*", "followers", "unreadable")
    )


def _readers(s: Sources) -> DataFrame:
    """By partition, how far the final readers came, one of each isolation level: rc, ru."""

    def end_of(isolation: Isolation) -> Column:
        end = F.struct("first", "next", "sentinel_offset")
        return F.min(F.when(F.col("isolation") == isolation.value, end))

    return (
        s["ends"]
        .where(F.coalesce(F.col("role") != Role.OBSERVER.value, F.lit(True)))
        .groupBy("run", "tp")
        .agg(
            end_of(Isolation.READ_COMMITTED).alias("rc"),
            end_of(Isolation.READ_UNCOMMITTED).alias("ru"),
        )
    )


def _input_topics(s: Sources) -> DataFrame:
    """By topic that a stage reads, what its stages promise."""
    return (
        s["stages"]
        .groupBy("run", F.col("in_topic").alias("topic"))
        .agg(F.lit(True).alias("is_input"), F.every(F.coalesce("ordered", F.lit(False))).alias("ordered"))
    )
