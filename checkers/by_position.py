"""By partition and offset: what the log holds in each place, and what became of it."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from checkers.sources import Sources
from harness.history import Fate, Isolation

EFFECTIVE = (Fate.COMMIT.value, Fate.PLAIN.value)


def effective(fate: Column) -> Column:
    """What a record's fate amounts to: commit (plain too), abort, open; null where there is no log."""
    return F.when(fate == Fate.PLAIN.value, F.lit(Fate.COMMIT.value)).otherwise(fate)


def make_tps(s: Sources) -> DataFrame:
    """run, tp, topic, partition, internal, compacted, is_input; ordered (every stage that reads it promises
    order); logged (the leader's log is here and whole), log_start, log_end, high_watermark, followers (how
    many other replicas are here); for the final readers rc (read committed) and ru: rc_first, rc_next, rc_end
    (came to the sentinel), ru_first, ru_next, ru_end.
    """

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
            "rc_first",
            "rc_next",
            F.col("rc_sentinel").isNotNull().alias("rc_end"),
            "ru_first",
            "ru_next",
            F.col("ru_sentinel").isNotNull().alias("ru_end"),
        )
    )


def _leaders(s: Sources) -> DataFrame:
    """By partition, how far its leader's log goes."""

    def led(column: Column) -> Column:
        return F.when(F.col("leader"), column)

    return (
        s["replicas"]
        .groupBy("run", "tp")
        .agg(
            F.every(led(F.col("damaged").isNull())).alias("logged"),
            F.max(led(F.col("log_start"))).alias("log_start"),
            F.max(led(F.col("log_end"))).alias("log_end"),
            F.max(led(F.col("high_watermark"))).alias("high_watermark"),
            F.count(F.when(~F.col("leader"), F.lit(1))).alias("followers"),
        )
    )


def _readers(s: Sources) -> DataFrame:
    """By partition, how far the final readers came."""

    def of(isolation: Isolation, column: str) -> Column:
        return F.when(F.col("isolation") == isolation.value, F.col(column))

    return (
        s["ends"]
        .groupBy("run", "tp")
        .agg(
            *(
                column
                for short, isolation in (("rc", Isolation.READ_COMMITTED), ("ru", Isolation.READ_UNCOMMITTED))
                for column in (
                    F.min(of(isolation, "first")).alias(f"{short}_first"),
                    F.max(of(isolation, "next")).alias(f"{short}_next"),
                    F.max(of(isolation, "sentinel_offset")).alias(f"{short}_sentinel"),
                )
            )
        )
    )


def _input_topics(s: Sources) -> DataFrame:
    """By topic that a stage reads, what its stages promise."""
    return (
        s["stages"]
        .groupBy("run", F.col("in_topic").alias("topic"))
        .agg(F.lit(True).alias("is_input"), F.every(F.coalesce("ordered", F.lit(False))).alias("ordered"))
    )
