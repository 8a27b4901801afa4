"""By partition and offset: what the log holds in each place, and what became of it."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from checkers.sources import Sources
from harness.history import Fate, Isolation, Role

TRANSACTIONS_TOPIC = "__transaction_state"
LATE_MS = 30_000
"""How long beyond its own time-out a transaction may stay listed as ongoing: twice Kafka's default
clean-up interval (10 s), and a margin for a coordinator that moves."""
EFFECTIVE = (Fate.COMMIT.value, Fate.PLAIN.value)
PENDING_STATES = ("Ongoing", "PrepareCommit", "PrepareAbort")


def effective(fate: Column) -> Column:
    """What a record's fate amounts to: commit (plain too), abort, open; null where there is no log."""
    return F.when(fate == Fate.PLAIN.value, F.lit(Fate.COMMIT.value)).otherwise(fate)


def make_tps(s: Sources) -> DataFrame:
    """run, tp, topic, partition, internal, compacted, is_input; logged (the leader's log is here and whole),
    log_start, log_end, high_watermark; for the final readers rc (read committed) and ru: rc_first, rc_next,
    rc_end (came to the sentinel), ru_first, ru_next, ru_end.
    """
    leaders = (
        s["replicas"]
        .where("leader")
        .groupBy("run", "tp")
        .agg(
            F.every(F.col("damaged").isNull()).alias("logged"),
            F.max("log_start").alias("log_start"),
            F.max("log_end").alias("log_end"),
            F.max("high_watermark").alias("high_watermark"),
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
            "rc_first",
            "rc_next",
            F.col("rc_sentinel").isNotNull().alias("rc_end"),
            "ru_first",
            "ru_next",
            F.col("ru_sentinel").isNotNull().alias("ru_end"),
        )
    )


def make_batches(s: Sources, tps: DataFrame) -> DataFrame:
    """The leader's data batches: run, tp, base_offset, last_offset, producer_id, epoch, transactional, fate;
    the marker that decided (marker_offset, marker_epoch, marker_ms); epoch_above (the highest epoch that
    its producer id had before, in this partition); abandoned (open, and the transaction log does not list it
    as under way, or has done so for too long).
    """
    by_producer = Window.partitionBy("run", "tp", "producer_id")
    above = by_producer.orderBy(F.desc("base_offset")).rowsBetween(Window.unboundedPreceding, -1)
    below = by_producer.orderBy("base_offset").rowsBetween(Window.unboundedPreceding, -1)
    marker = F.when(
        F.col("control") & F.col("marker").isNotNull(),
        F.struct(
            F.col("marker").alias("type"),
            F.col("base_offset").alias("offset"),
            F.col("epoch"),
            F.col("max_timestamp_ms").alias("ms"),
        ),
    )
    here = tps.where("logged and topic != '__transaction_state'").select("run", "tp")
    fated = (
        s["batches"]
        .where("leader")
        .join(F.broadcast(here), on=["run", "tp"], how="left_semi")
        .withColumn("decided", F.last(marker, ignorenulls=True).over(above))
        .withColumn("epoch_before", F.max("epoch").over(below))
        .where(~F.col("control"))
        .withColumn(
            "fate",
            F.when(~F.col("transactional"), F.lit(Fate.PLAIN.value)).otherwise(
                F.coalesce("decided.type", F.lit(Fate.OPEN.value))
            ),
        )
    )
    return (
        fated.join(F.broadcast(_last_states(s)), on=["run", "producer_id"], how="left")
        .join(F.broadcast(_quiescence(s, tps)), on="run", how="left")
        .select(
            "run",
            "tp",
            "base_offset",
            "last_offset",
            "producer_id",
            "epoch",
            "transactional",
            "fate",
            F.when(F.col("transactional"), F.col("decided.offset")).alias("marker_offset"),
            F.when(F.col("transactional"), F.col("decided.epoch")).alias("marker_epoch"),
            F.when(F.col("transactional"), F.col("decided.ms")).alias("marker_ms"),
            "epoch_before",
            F.struct("transactional_id", "state", "state_epoch", "tps").alias("state"),
            (
                (F.col("fate") == Fate.OPEN.value)
                & F.coalesce("judgeable", F.lit(False))
                & ~F.coalesce(
                    F.col("state").isin(*PENDING_STATES)
                    & F.array_contains("tps", F.col("tp"))
                    & ~(
                        (F.col("state") == "Ongoing")
                        & F.coalesce(
                            F.col("start_ms") + F.col("timeout_ms") + LATE_MS < F.col("end_ms"), F.lit(False)
                        )
                    ),
                    F.lit(False),
                )
            ).alias("abandoned"),
        )
    )


def _last_states(s: Sources) -> DataFrame:
    """By run and producer id, the last word of the transaction log."""
    row = F.struct("log_offset", "transactional_id", "state", "epoch", "tps", "timeout_ms", "start_ms")
    return (
        s["transactions"]
        .groupBy("run", "producer_id")
        .agg(F.max_by(row, "log_offset").alias("last"))
        .select(
            "run",
            "producer_id",
            "last.transactional_id",
            "last.state",
            F.col("last.epoch").alias("state_epoch"),
            "last.tps",
            "last.timeout_ms",
            "last.start_ms",
        )
    )


def _quiescence(s: Sources, tps: DataFrame) -> DataFrame:
    """By run: judgeable (the run came to its end, and the whole transaction log is here), end_ms (wall)."""
    whole = (
        tps.where(F.col("topic") == TRANSACTIONS_TOPIC)
        .groupBy("run")
        .agg(F.every("logged").alias("log_whole"))
    )
    told = s["transactions"].select("run").distinct().withColumn("told", F.lit(True))
    ended = s["records"].where("sentinel").groupBy("run").agg(F.max("timestamp_ms").alias("end_ms"))
    return (
        s["runs"]
        .join(whole, on="run", how="left")
        .join(told, on="run", how="left")
        .join(ended, on="run", how="left")
        .select(
            "run",
            "end_ms",
            (F.col("whole") & F.coalesce("log_whole", F.lit(False)) & F.coalesce("told", F.lit(False))).alias(
                "judgeable"
            ),
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
