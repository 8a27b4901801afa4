"""By partition and offset: what the log holds in each place, and what became of it."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from checkers.sources import Sources
from harness.history import Fate, Isolation, Role

EFFECTIVE = (Fate.COMMIT.value, Fate.PLAIN.value)


def effective(fate: Column) -> Column:
    """What a record's fate amounts to: commit (plain too), abort, open; null where there is no log."""
    return F.when(fate == Fate.PLAIN.value, F.lit(Fate.COMMIT.value)).otherwise(fate)


def make_tps(s: Sources) -> DataFrame:
    """run, tp, topic, partition, internal, compacted, is_input; logged (the leader's log is here and whole),
    log_start, log_end, high_watermark, followers (how many other replicas are here); for the final readers
    rc (read committed) and ru: rc_first, rc_next, rc_end (came to the sentinel), ru_first, ru_next, ru_end.
    """

    def led(column: Column) -> Column:
        return F.when(F.col("leader"), column)

    leaders = (
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

    def of(isolation: Isolation, column: str) -> Column:
        return F.when(F.col("isolation") == isolation.value, F.col(column))

    readers = (
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
    input_topics = (
        s["stages"].select("run", F.col("in_topic").alias("topic"), F.lit(True).alias("is_input")).distinct()
    )
    return (
        s["partitions"]
        .join(F.broadcast(leaders), on=["run", "tp"], how="left")
        .join(F.broadcast(readers), on=["run", "tp"], how="left")
        .join(F.broadcast(input_topics), on=["run", "topic"], how="left")
        .select(
            "run",
            "tp",
            "topic",
            "partition",
            "internal",
            "compacted",
            F.coalesce("is_input", F.lit(False)).alias("is_input"),
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


def make_positions(s: Sources, tps: DataFrame, batches: DataFrame) -> DataFrame:
    """run, tp, offset; of the log: held, producer_id, epoch, fate, marker_offset, marker_ms, abandoned; of
    the final read: found, value, slot, inputs, digest, sentinel; acks [op, n, value]; of the polls:
    polled, given (to the final reader), consumed (given to a worker), promised (given to a reader
    promised read committed), promised_ns (to the first of them); commit (an offset commit: group, tp,
    committed, op, transactional); visible; and from `tps`: topic, internal, is_input, logged,
    high_watermark, rc_end, covered (absence from the log counts), passed (the final read-committed
    reader read on beyond it).
    """
    log = batches.select(
        "run",
        "tp",
        F.explode(F.sequence("base_offset", "last_offset")).alias("offset"),
        F.struct("producer_id", "epoch", "fate", "marker_offset", "marker_ms", "abandoned").alias("log"),
    )
    found = s["records"].select(
        "run", "tp", "offset", F.struct("value", "slot", "inputs", "digest", "sentinel").alias("record")
    )
    acks = (
        s["sends"]
        .where("acked and tp is not null and offset >= 0")
        .select("run", "tp", "offset", F.struct("op", "n", "value").alias("ack"))
    )
    commits = s["offsets"].select(
        "run",
        F.col("log_tp").alias("tp"),
        F.col("log_offset").alias("offset"),
        F.struct("group", "tp", "committed", "op", "transactional").alias("commit"),
    )
    united = log
    for part in (found, acks, commits, _deliveries(s)):
        united = united.unionByName(part, allowMissingColumns=True)
    grouped = united.groupBy("run", "tp", "offset").agg(
        F.first("log", ignorenulls=True).alias("log"),
        F.first("record", ignorenulls=True).alias("record"),
        F.collect_list("ack").alias("acks"),
        F.first("commit", ignorenulls=True).alias("commit"),
        *(
            F.coalesce(F.max(name), F.lit(False)).alias(name)
            for name in ("polled", "given", "consumed", "promised")
        ),
        F.min("promised_ns").alias("promised_ns"),
    )
    takes_effect = F.expr(
        "coalesce(log.fate in ('commit', 'plain') and coalesce(offset < high_watermark, true), false)"
    )
    return grouped.join(F.broadcast(tps), on=["run", "tp"], how="inner").select(
        "run",
        "tp",
        "offset",
        "topic",
        "internal",
        "is_input",
        "logged",
        "high_watermark",
        "rc_end",
        F.col("log").isNotNull().alias("held"),
        "log.producer_id",
        "log.epoch",
        "log.fate",
        "log.marker_offset",
        "log.marker_ms",
        "log.abandoned",
        F.col("record").isNotNull().alias("found"),
        "record.value",
        "record.slot",
        "record.inputs",
        "record.digest",
        F.coalesce("record.sentinel", F.lit(False)).alias("sentinel"),
        "acks",
        "commit",
        "polled",
        "given",
        "consumed",
        "promised",
        "promised_ns",
        F.when(F.col("logged"), takes_effect).otherwise(F.col("given")).alias("visible"),
        F.expr("logged and not compacted and offset >= log_start").alias("covered"),
        F.expr("not compacted and coalesce(offset >= rc_first and offset < rc_next, false)").alias("passed"),
    )


def _deliveries(s: Sources) -> DataFrame:
    """By run, tp and offset: to what kinds of readers it was given."""
    promised = F.col("promised") == Isolation.READ_COMMITTED.value
    return (
        s["polls"]
        .groupBy("run", "tp", "offset")
        .agg(
            F.max(F.lit(True)).alias("polled"),
            F.max(F.col("role") == Role.FINAL.value).alias("given"),
            F.max(F.col("role") == Role.WORKER.value).alias("consumed"),
            F.max(promised).alias("promised"),
            F.min(F.when(promised, F.col("return_ns"))).alias("promised_ns"),
        )
    )
