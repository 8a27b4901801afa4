"""Stalled: there was something to do and somebody to do it, and for too long nothing was committed.

After the last fault was healed, a group committed nothing for longer than the bound. Meanwhile an input
lay before it, acknowledged or committed by its writer before that time began; and a worker of the stage
that had begun to work before that time was at work after it.

The bound is the longest time-out of the run's transactions, plus the session time-out of its consumers
(45 s, Kafka's default, where the run does not say), plus 15 s: within that time every transaction that
was left open is aborted (a coordinator looks once in 10 s by default), every member that has gone is
missed, and a coordinator has moved.

Illegal because a pipeline that does not go on once everything works again is of no use. It is a warning:
no record is wrong by it.
Evidence: the journals, on one clock; the time-outs in the transaction log; and when the run says that its
last fault was healed.

    last fault healed at 20 s; transaction time-out 30 s, session time-out 2 s
    feeder  send a=1                ok at 21 s
    W1      poll a=1, commit        ok at 70 s                    <- stalled: 49 s, the bound is 47 s

Blind spot: what stood still while a fault was on; a worker that records nothing any more.
Reference: KIP-98; KAFKA-14402; Jepsen on Bufstream 0.1.0 (2024), "stuck consumers".
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from checkers.findings.build import finding, operation
from checkers.stored.tables import Tables
from harness.history import Outcome

SESSION_MS = 45_000
"""Kafka's default `session.timeout.ms`."""
MARGIN_MS = 15_000
"""Kafka's default interval between two looks for transactions that are over time, and half of it again."""
KEYS = ("run", "op", "group", "committed", "from_ns", "to_ns", "bound_ns")


def stalled(t: Tables) -> DataFrame:
    """One row for each time without a commit: the operation that ended it, or the last there was."""
    places = _gaps(t).select(*KEYS, F.explode("places").alias("place"))
    there = (
        t.operations.where(F.col("operation.outcome") == Outcome.OK.value)
        .select(
            "run", F.col("op").alias("writer"), "operation.return_ns", F.explode("records").alias("record")
        )
        .select("run", "record.tp", "record.offset", "writer", F.col("return_ns").alias("there_ns"))
    )
    lags = (
        there.join(F.broadcast(places.withColumn("tp", F.col("place.tp"))), on=["run", "tp"], how="inner")
        .where("offset >= place.offset")
        .withColumn("since_ns", F.greatest("from_ns", "there_ns"))
        .where("to_ns - since_ns > bound_ns")
    )
    found = lags.groupBy("run", "op", "group", "committed", "to_ns", "bound_ns").agg(
        F.min(F.struct("since_ns", "tp", "offset", "writer")).alias("lag")
    )
    return finding(
        found,
        "stalled",
        order=["to_ns"],
        ops=F.array("op"),
        absence=True,
        group=F.col("group"),
        still_s=_seconds(F.col("to_ns") - F.col("lag.since_ns")),
        bound_s=_seconds(F.col("bound_ns")),
        from_s=_seconds(F.col("lag.since_ns")),
        to_s=_seconds(F.col("to_ns")),
        committed=F.col("committed"),
        input=F.struct("lag.tp", "lag.offset"),
        operation=operation(),
        writer=F.struct(F.col("lag.writer").alias("op")),
    )


def _gaps(t: Tables) -> DataFrame:
    """Each time above the bound in which a stage committed nothing: KEYS, and places, of what lay before it.

    The places are the inputs of the commit that ended it; where none did, the last committed offsets.
    """
    bound_ms = F.col("longest_ms") + F.coalesce("session_ms", F.lit(SESSION_MS)) + MARGIN_MS
    bounds = t.runs.select("run", "healed_ns", (bound_ms * 1_000_000).alias("bound_ns"))
    reached = t.groups.groupBy("run", "group").agg(
        F.collect_list(F.struct("tp", F.coalesce("final", "first").alias("offset"))).alias("reached")
    )
    in_time = Window.partitionBy("run", "stage").orderBy("to_ns", "op")
    earlier = in_time.rowsBetween(Window.unboundedPreceding, -1)
    claimed = F.transform("claims", lambda claim: F.struct(claim["tp"], claim["first"].alias("offset")))
    return (
        t.operations.where("operation.stage is not null")
        .select(
            "run",
            "op",
            "operation.stage",
            "operation.journal",
            "operation.call_ns",
            F.coalesce("operation.return_ns", "operation.commit_ns", "operation.call_ns").alias("to_ns"),
            claimed.alias("claimed"),
            F.get("claims", F.lit(0))["group"].alias("own"),
            ((F.col("settled") == "committed") & (F.size("claims") > 0)).alias("committed"),
        )
        .withColumns(
            {
                "group": F.coalesce("own", F.last("own", ignorenulls=True).over(earlier)),
                "last_ns": F.max(F.when(F.col("committed"), F.col("to_ns"))).over(earlier),
                "ends": F.col("committed") | F.lead(F.lit(True)).over(in_time).isNull(),
                "began_ns": F.min("call_ns").over(Window.partitionBy("run", "stage", "journal")),
            }
        )
        .where("ends")
        .join(F.broadcast(bounds), on="run", how="inner")
        .withColumn("from_ns", F.greatest("healed_ns", "last_ns"))
        .where("healed_ns is not null and to_ns - from_ns > bound_ns and began_ns <= from_ns")
        .join(F.broadcast(reached), on=["run", "group"], how="left")
        .withColumn("places", F.when(F.col("committed"), F.col("claimed")).otherwise(F.col("reached")))
        .select(*KEYS, "places")
    )


def _seconds(ns: Column) -> Column:
    return F.round(ns / 1e9, 3)
