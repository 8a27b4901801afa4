"""By producer: what the leaders' logs say of its batches, and the transaction log of its transactions."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from checkers.stored.sources import Sources
from harness.history import Fate

TRANSACTIONS_TOPIC = "__transaction_state"
LATE_MS = 30_000
"""How long beyond its own time-out a transaction may stay listed as ongoing: twice Kafka's default
clean-up interval (10 s), and a margin for a coordinator that moves."""
PREPARED = ("PrepareCommit", "PrepareAbort")
COMPLETE = ("CompleteCommit", "CompleteAbort")
PENDING_STATES = ("Ongoing", *PREPARED)
QUIET = ("run", "judgeable", "end_ms")
"""Of the table `runs`: what the batches and states of a run are weighed with."""


def make_batches(s: Sources, tps: DataFrame, runs: DataFrame) -> DataFrame:
    """The leader's data batches: run, tp, base_offset, last_offset, producer_id, epoch, base_sequence,
    transactional, fate; the marker that decided (marker_offset, marker_epoch, marker_ms); abandoned (open,
    and the transaction log does not list it as under way, or has done so for too long). Of its producer id
    in this partition: epoch_before (the highest epoch below it), entry_before (the batch or marker just below
    it), marker_next (if a marker stands just above it), batch_before (the data batch below it), markers (how
    many there are in all). internal, compacted, log_start, high_watermark: of the partition.
    """
    return (
        _fated(s, tps)
        .join(F.broadcast(_last_states(s)), on=["run", "producer_id"], how="left")
        .join(F.broadcast(runs.select(*QUIET)), on="run", how="left")
        .select(
            "run",
            "tp",
            "base_offset",
            "last_offset",
            "producer_id",
            "epoch",
            "base_sequence",
            "transactional",
            "fate",
            F.when(F.col("transactional"), F.col("decided.offset")).alias("marker_offset"),
            F.when(F.col("transactional"), F.col("decided.epoch")).alias("marker_epoch"),
            F.when(F.col("transactional"), F.col("decided.ms")).alias("marker_ms"),
            "epoch_before",
            "entry_before",
            "marker_next",
            "batch_before",
            "markers",
            "internal",
            "compacted",
            "log_start",
            "high_watermark",
            F.struct("transactional_id", "state", "state_epoch", "tps").alias("state"),
            _abandoned().alias("abandoned"),
        )
    )


def _fated(s: Sources, tps: DataFrame) -> DataFrame:
    """Every data batch with its neighbours of the same producer, and what the next marker made of it."""
    by_producer = Window.partitionBy("run", "tp", "producer_id")
    upwards = by_producer.orderBy("base_offset")
    above = by_producer.orderBy(F.desc("base_offset")).rowsBetween(Window.unboundedPreceding, -1)
    below = upwards.rowsBetween(Window.unboundedPreceding, -1)
    marker = F.when(
        F.col("marker").isNotNull(),
        F.struct(
            F.col("marker").alias("type"),
            F.col("base_offset").alias("offset"),
            F.col("epoch"),
            F.col("max_timestamp_ms").alias("ms"),
        ),
    )
    entry = F.struct("epoch", F.col("base_offset").alias("offset"), "marker")
    data = F.when(~F.col("control"), F.struct("epoch", "base_sequence", "base_offset", "last_offset"))
    here = tps.where("logged and topic != '__transaction_state'").select(
        "run", "tp", "internal", "compacted", "log_start", "high_watermark"
    )
    return (
        s["batches"]
        .where("leader")
        .join(F.broadcast(here), on=["run", "tp"], how="inner")
        .withColumns(
            {
                "decided": F.last(marker, ignorenulls=True).over(above),
                "epoch_before": F.max("epoch").over(below),
                "entry_before": F.lag(entry).over(upwards),
                "marker_next": F.lead(marker).over(upwards),
                "batch_before": F.last(data, ignorenulls=True).over(below),
                "markers": F.count("marker").over(by_producer),
            }
        )
        .where(~F.col("control"))
        .withColumn(
            "fate",
            F.when(~F.col("transactional"), F.lit(Fate.PLAIN.value)).otherwise(
                F.coalesce("decided.type", F.lit(Fate.OPEN.value))
            ),
        )
    )


def _abandoned() -> Column:
    """Open after quiescence, and not listed as under way, or for too long."""
    late = (F.col("state") == "Ongoing") & (
        F.col("start_ms") + F.col("timeout_ms") + LATE_MS < F.col("end_ms")
    )
    listed = (
        F.col("state").isin(*PENDING_STATES)
        & F.array_contains("tps", F.col("tp"))
        & ~F.coalesce(late, F.lit(False))
    )
    is_open = F.col("fate") == Fate.OPEN.value
    return is_open & F.coalesce("judgeable", F.lit(False)) & ~F.coalesce(listed, F.lit(False))


def make_states(s: Sources, runs: DataFrame) -> DataFrame:
    """The transaction log, record by record: run, log_tp, log_offset, transactional_id, producer_id, epoch,
    state, tps, timeout_ms, start_ms, update_ms; before, before_2, before_3 (the three that its
    transactional id had before it); last (none comes after it); late (it stays in a Prepare state long after
    the run had come to rest).

    A record that says the same as the one before it is left out: a coordinator writes a state again when
    its first attempt was not confirmed.
    """
    by_id = Window.partitionBy("run", "transactional_id").orderBy("log_offset")  # all of an id are in one
    row = F.struct("log_tp", "log_offset", "producer_id", "epoch", "state", "tps", "update_ms")
    again = F.lit(True)
    for column in ("state", "producer_id", "epoch", "tps"):
        again = again & F.col(f"before.{column}").eqNullSafe(F.col(column))
    return (
        s["transactions"]
        .withColumn("before", F.lag(row).over(by_id))
        .where(~again)
        .withColumns(
            {
                "before": F.lag(row).over(by_id),
                "before_2": F.lag(row, 2).over(by_id),
                "before_3": F.lag(row, 3).over(by_id),
                "last": F.lead(F.lit(True)).over(by_id).isNull(),
            }
        )
        .join(F.broadcast(runs.select(*QUIET)), on="run", how="left")
        .select(
            "run",
            "log_tp",
            "log_offset",
            "transactional_id",
            "producer_id",
            "epoch",
            "state",
            "tps",
            "timeout_ms",
            "start_ms",
            "update_ms",
            "before",
            "before_2",
            "before_3",
            "last",
            F.coalesce(
                F.col("last")
                & F.col("judgeable")
                & F.col("state").isin(*PREPARED)
                & (F.col("update_ms") + LATE_MS < F.col("end_ms")),
                F.lit(False),
            ).alias("late"),
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


def make_quiet(s: Sources, tps: DataFrame) -> DataFrame:
    """By run: judgeable (the run came to its end, and the whole transaction log is here), end_ms (wall),
    longest_ms (the longest time-out of its transactions).
    """
    whole = (
        tps.where(F.col("topic") == TRANSACTIONS_TOPIC)
        .groupBy("run")
        .agg(F.every("logged").alias("log_whole"))
    )
    told = (
        s["transactions"]
        .groupBy("run")
        .agg(F.max("timeout_ms").alias("timeout_ms"), F.lit(True).alias("told"))
    )
    ended = s["records"].where("sentinel").groupBy("run").agg(F.max("timestamp_ms").alias("end_ms"))
    return (
        s["runs"]
        .join(whole, on="run", how="left")
        .join(told, on="run", how="left")
        .join(ended, on="run", how="left")
        .select(
            "run",
            "end_ms",
            F.col("timeout_ms").alias("longest_ms"),
            (F.col("whole") & F.coalesce("log_whole", F.lit(False)) & F.coalesce("told", F.lit(False))).alias(
                "judgeable"
            ),
        )
    )
