"""Stalled: a group had inputs and a live worker, but committed nothing for too long.

After the last fault was healed, a group committed nothing for longer than the bound. During that time it had an input
to process: its writer had sent it ok before that time began. And a worker of the stage had started before that time
and was still active after it.

The bound is the sum of the longest time-out of the run's transactions, the session time-out of its consumers, and 15 s.
If the session time-out is not known, it is Kafka's default, 45 s. Within the bound, every open transaction is aborted,
because a coordinator looks for them every 10 s by default. Every lost member is removed from its group, and a
coordinator has moved.

Illegal because a pipeline must go on once everything works again. It is a warning, because no record is wrong.
Evidence: the journals, on one clock; the time-outs in the transaction log; and the time at which the last fault was
healed.

    last fault healed at 20 s; transaction time-out 30 s, session time-out 2 s
    feeder  send a=1                ok at 21 s
    W1      poll a=1, commit        ok at 70 s                    <- stalled: 49 s, the bound is 47 s

Blind spot: a group that made no progress during a fault, and a worker that records nothing any more.
Reference: KIP-98; KAFKA-14402; Jepsen on Bufstream 0.1.0 (2024), "stuck consumers".
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.findings.build import finding, operation, record_position
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
"""One and a half times the default interval at which a coordinator looks for transactions that have timed out."""
KEYS = ("run", "op", "group", "committed", "from_ns", "to_ns", "bound_ns")
IN_TIME = "partition by run, stage order by to_ns, op"
BOUND_MS = f"(longest_ms + coalesce(session_ms, {SESSION_MS}) + {MARGIN_MS})"
TO_NS = "coalesce(operation.return_ns, operation.commit_ns, operation.call_ns)"
SUSPECTS = (
    Suspect("operations", f"operation.stage is not null and {TO_NS} - healed_ns > {BOUND_MS} * 1000000"),
)
"""A stage was still active later than the bound after the last heal."""
EARLIER = f"over ({IN_TIME} rows between unbounded preceding and 1 preceding)"


def stalled(t: Tables) -> DataFrame:
    """Return one row for each time without a commit, with the operation that ended it, or else the last operation."""
    positions = _gaps(t).selectExpr(*KEYS, "explode(positions) as position").selectExpr("*", "position.tp")
    inputs = (
        t.operations.where(f"operation.outcome = '{Outcome.OK.value}'")
        .selectExpr("run", "op as writer", "operation.return_ns as sent_ns", "explode(records) as record")
        .select("run", "record.tp", "record.offset", "writer", "sent_ns")
    )
    lags = (
        inputs.join(broadcast(positions), on=["run", "tp"], how="inner")
        .selectExpr("*", "greatest(from_ns, sent_ns) as since_ns")
        .where("offset >= position.offset and to_ns - since_ns > bound_ns")
    )
    stalls = lags.groupBy("run", "op", "group", "committed", "to_ns", "bound_ns").agg(
        F.expr("min(struct(since_ns, tp, offset, writer)) as lag")
    )
    return finding(
        stalls,
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
        input=record_position("lag.tp", "lag.offset"),
        operation=operation(),
        writer=operation("lag.writer"),
    )


def _gaps(t: Tables) -> DataFrame:
    """Return KEYS and positions for each time in which a stage committed nothing for longer than the bound.

    `positions` are the positions from which inputs were left: those of the commit that ended the time. If none ended
    it, they are the last committed offsets.
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
        .selectExpr(*KEYS, "if(committed, claimed, reached) as positions")
    )


def _seconds(ns: str) -> str:
    return f"round(({ns}) / 1e9, 3)"


def _sentence(e: Example) -> str:
    who = "the group" if e.rest.get("group") is None else f"group {printable(e.rest['group'], 60)}"
    still, bound = printable(e.rest.get("still_s")), printable(e.rest.get("bound_s"))
    end = "until" if e.rest.get("committed") is True else "and still nothing at the time of"
    return (
        f"{who} committed nothing for {still} s (the bound is {bound} s), {end} {e.operation}, "
        f"though {e.input} was waiting"
    )


WORDING = {
    "stalled": AnomalyWording(
        "group stalled after the last heal",
        "groups stalled after the last heal",
        "All faults were healed, and a group had inputs and a live worker. But it committed nothing for longer than "
        "the time-outs explain.",
        _sentence,
    ),
}
