"""Contended id: two live workers initialised one transactional id in turn.

A process initialised a transactional id, then another one did, and then the first one again. Being
replaced once is how a worker that has gone is followed by another; taking the id back shows that both are
alive and have the same. A worker from which partitions were taken between its own two initialisations is not
accused: where each partition has an id, one that comes back brings its id along.

Illegal because a transactional id is one producer's: two that share it fence each other, again and again,
and none gets on. It is a warning: nothing is lost by it.
Evidence: the initialisations that the processes were told had succeeded, in the order of their calls.

    W1  init id=a     ok
    W2  init id=a     ok
    W1  init id=a     ok      <- contended-id

Blind spot: processes that record nothing; one that gives up when it is fenced for the first time; one whose group
rebalanced meanwhile.
Reference: KIP-98, "transactional.id"; KIP-447.
"""

from collections.abc import Mapping

from pyspark.sql import DataFrame

from checkers.findings.build import finding, operation
from checkers.findings.wording import AnomalyWording
from checkers.spark.joins import broadcast
from checkers.stored.tables import Tables
from harness.results.example import Example, describe_operation


def contended_id(t: Tables) -> DataFrame:
    """One row for each time that an id was taken back."""
    found = (
        t.inits.where("transactional_id is not null")
        .selectExpr(
            "run",
            "transactional_id",
            "journal",
            "op",
            "call_ns",
            "lag(struct(journal, op)) over (partition by run, transactional_id order by call_ns) as before",
            "lag(struct(op, call_ns)) over (partition by run, transactional_id, journal order by call_ns) as last",
        )
        .where("last is not null and before.journal != journal")
        .selectExpr("*", "last.op as own", "last.call_ns as own_ns")
    )
    moved = found["call_ns"] >= t.revocations["time_ns"]
    here = (found["run"] == t.revocations["run"]) & (found["journal"] == t.revocations["journal"])
    found = found.join(
        broadcast(t.revocations), here & moved & (found["own_ns"] <= t.revocations["time_ns"]), "left_anti"
    )
    return finding(
        found,
        "contended-id",
        order=["op"],
        ops="array(op)",
        transactional_id="transactional_id",
        operation=operation(),
        other_init=operation("before.op"),
        own_init=operation("own"),
    )


def _sentence(e: Example) -> str:
    other = e.body.get("other_init")
    who = describe_operation(other) if isinstance(other, Mapping) else "another process"
    return f"{e.operation} took {e.transactional_id} back after {who} had taken it"


WORDING = {
    "contended-id": AnomalyWording(
        "transactional id was taken back by one who had lost it",
        "transactional ids were taken back by those who had lost them",
        "Two live workers have one transactional id, and fence each other in turn.",
        _sentence,
    ),
}
