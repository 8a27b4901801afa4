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

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.findings.build import finding, operation, record_place
from checkers.findings.rules import Suspect
from checkers.findings.wording import AnomalyWording
from checkers.spark.joins import broadcast
from checkers.stored.tables import Tables
from harness.model.vocabulary import Outcome
from harness.results.example import Example
from harness.results.wording import printable

SESSION_MS = 45_000
"""Kafka's default `session.timeout.ms`."""
MARGIN_MS = 15_000
"""Kafka's default interval between two looks for transactions that are over time, and half of it again."""
KEYS = ("run", "op", "group", "committed", "from_ns", "to_ns", "bound_ns")
IN_TIME = "partition by run, stage order by to_ns, op"
BOUND_MS = f"(longest_ms + coalesce(session_ms, {SESSION_MS}) + {MARGIN_MS})"
TO_NS = "coalesce(operation.return_ns, operation.commit_ns, operation.call_ns)"
SUSPECTS = (
    Suspect("operations", f"operation.stage is not null and {TO_NS} - healed_ns > {BOUND_MS} * 1000000"),
)
"""Above the bound after the last heal a stage was at work still."""
EARLIER = f"over ({IN_TIME} rows between unbounded preceding and 1 preceding)"


def stalled(t: Tables) -> DataFrame:
    """One row for each time without a commit: the operation that ended it, or the last there was."""
    places = _gaps(t).selectExpr(*KEYS, "explode(places) as place").selectExpr("*", "place.tp")
    there = (
        t.operations.where(f"operation.outcome = '{Outcome.OK.value}'")
        .selectExpr("run", "op as writer", "operation.return_ns as there_ns", "explode(records) as record")
        .select("run", "record.tp", "record.offset", "writer", "there_ns")
    )
    lags = (
        there.join(broadcast(places), on=["run", "tp"], how="inner")
        .selectExpr("*", "greatest(from_ns, there_ns) as since_ns")
        .where("offset >= place.offset and to_ns - since_ns > bound_ns")
    )
    found = lags.groupBy("run", "op", "group", "committed", "to_ns", "bound_ns").agg(
        F.expr("min(struct(since_ns, tp, offset, writer)) as lag")
    )
    return finding(
        found,
        "stalled",
        order=["to_ns"],
        ops="array(op)",
        absence="true",
        group="group",
        still_s=_seconds("to_ns - lag.since_ns"),
        bound_s=_seconds("bound_ns"),
        from_s=_seconds("lag.since_ns"),
        to_s=_seconds("to_ns"),
        committed="committed",
        input=record_place("lag.tp", "lag.offset"),
        operation=operation(),
        writer=operation("lag.writer"),
    )


def _gaps(t: Tables) -> DataFrame:
    """Each time above the bound in which a stage committed nothing: KEYS, and places, of what lay before it.

    The places are the inputs of the commit that ended it; where none did, the last committed offsets.
    """
    bounds = t.runs.selectExpr("run", "healed_ns", f"{BOUND_MS} * 1000000 as bound_ns")
    reached = t.groups.groupBy("run", "group").agg(
        F.expr("collect_list(struct(tp, coalesce(final, first) as offset)) as reached")
    )
    return (
        t.operations.where("operation.stage is not null")
        .selectExpr(
            "run",
            "op",
            "operation.stage",
            "operation.journal",
            "operation.call_ns",
            f"{TO_NS} as to_ns",
            "transform(claims, c -> struct(c.tp as tp, c.first as offset)) as claimed",
            "get(claims, 0).group as own",
            "settled = 'committed' and size(claims) > 0 as committed",
        )
        .selectExpr(
            "*",
            f"coalesce(own, last(own, true) {EARLIER}) as group",
            f"max(if(committed, to_ns, null)) {EARLIER} as last_ns",
            f"committed or lead(true) over ({IN_TIME}) is null as ends",
            "min(call_ns) over (partition by run, stage, journal) as began_ns",
        )
        .where("ends")
        .join(broadcast(bounds), on="run", how="inner")
        .selectExpr("*", "greatest(healed_ns, last_ns) as from_ns")
        .where("healed_ns is not null and to_ns - from_ns > bound_ns and began_ns <= from_ns")
        .join(broadcast(reached), on=["run", "group"], how="left")
        .selectExpr(*KEYS, "if(committed, claimed, reached) as places")
    )


def _seconds(ns: str) -> str:
    return f"round(({ns}) / 1e9, 3)"


def _sentence(e: Example) -> str:
    who = "the group" if e.rest.get("group") is None else f"group {printable(e.rest['group'], 60)}"
    still, bound = printable(e.rest.get("still_s")), printable(e.rest.get("bound_s"))
    ended = "until" if e.rest.get("committed") is True else "and not by the time of"
    return (
        f"{who} committed nothing for {still} s (the bound is {bound} s), "
        f"{ended} {e.operation}, with {e.input} before it"
    )


WORDING = {
    "stalled": AnomalyWording(
        "group stood still after the last heal",
        "groups stood still after the last heal",
        "There were inputs, and a worker, and all faults were healed; and nothing was committed for "
        "longer than any time-out explains.",
        _sentence,
    ),
}
