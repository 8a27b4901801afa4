"""Undue fencing: a producer was fenced, and nobody had taken its place.

An operation was told that it is fenced, though from the last initialisation of its transactional id by
its own process to that answer nobody had begun to initialise the id, and though the transaction log has
no abort by time-out of that id since then.

Illegal because fencing is for those who were replaced, or have let their time-out pass; a producer that
did neither loses its work. It is a warning: what it had begun is aborted, and nothing is lost by it.
Evidence: the invocations of all initialisations, answered or not, on one clock; and the whole transaction
log. An abort by time-out is a PrepareAbort that stands at least the time-out above the start of its
transaction. Where the wall clock is not known, any abort by time-out of the id excuses it.

    W1  init id=a                 ok
    W1  send x=1, commit          info, fenced              <- undue-fencing
    transaction log: a Ongoing [x]

Blind spot: others that use the same transactional id and record nothing.
Reference: KAFKA-17754, a late AddPartitionsToTxn or AddOffsetsToTxn that opens a transaction which nobody
ends.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from checkers.findings.build import finding
from checkers.stored.tables import Tables
from harness.history import Outcome

CLOCKS_MS = 1_000
"""How far the wall clocks of a broker and of the run may stand apart."""


def undue_fencing(t: Tables) -> DataFrame:
    """One row for each operation."""
    told = t.operations.where("operation.transactional_id is not null").select(
        "run", "op", "operation.transactional_id", "operation.journal", "operation.f", "operation.fenced",
        "operation.outcome", "operation.call_ns", "operation.return_ns",
    )  # fmt: skip
    event = F.struct("call_ns", "op", "journal", "outcome", "return_ns")
    said = told.select(
        "run",
        "transactional_id",
        F.when(F.col("f") == "init", event).alias("init"),
        F.when(F.col("fenced"), event).alias("fenced"),
    )
    late = (F.col("state") == "PrepareAbort") & (
        F.col("update_ms") >= F.col("start_ms") + F.col("timeout_ms")
    )
    aborts = t.states.where(late).select("run", "transactional_id", F.col("update_ms").alias("abort_ms"))
    by_id = (
        said.where("init is not null or fenced is not null")
        .unionByName(aborts, allowMissingColumns=True)
        .groupBy("run", "transactional_id")
        .agg(
            F.collect_list("init").alias("inits"),
            F.collect_list("fenced").alias("fenced"),
            F.collect_list("abort_ms").alias("aborts"),
        )
        .join(F.broadcast(t.runs.select("run", "wall_ms")), on="run", how="left")
        .select("*", F.explode("fenced").alias("answer"))
        .withColumn("own", F.array_max(F.filter("inits", _own)))
    )
    found = by_id.where("own is not null").where(~F.exists("inits", _claims) & ~F.exists("aborts", _excuses))
    return finding(
        found,
        "undue-fencing",
        order=[F.col("answer.op")],
        ops=F.array("answer.op"),
        absence=True,
        transactional_id=F.col("transactional_id"),
        operation=F.struct("answer.op"),
        own_init=F.struct("own.op"),
    )


def _own(init: Column) -> Column:
    """An initialisation by which the process that was fenced had its id."""
    answer = F.col("answer")
    return (
        (init["journal"] == answer["journal"])
        & (init["outcome"] == Outcome.OK.value)
        & (init["call_ns"] < answer["call_ns"])
    )


def _claims(init: Column) -> Column:
    """Another initialisation that may have come after its own; one without an answer may come at any time."""
    begun = init["call_ns"] < F.col("answer.return_ns")
    after = (init["outcome"] != Outcome.OK.value) | (init["return_ns"] > F.col("own.call_ns"))
    return (init["op"] != F.col("own.op")) & begun & after


def _excuses(abort_ms: Column) -> Column:
    """An abort by time-out between its own initialisation and the answer."""

    def wall_ms(column: str) -> Column:
        return F.col("wall_ms") + F.col(column) / 1e6

    earliest, latest = wall_ms("own.call_ns") - CLOCKS_MS, wall_ms("answer.return_ns") + CLOCKS_MS
    return F.coalesce(abort_ms.between(earliest, latest), F.lit(True))
