"""Contended id: two live workers initialised one transactional id in turn.

A process initialised a transactional id, then a second process did, and then the first one did again. One replacement
is normal, because a new worker takes the place of one that has stopped. A process that takes the id back shows that
both processes are alive and use the same id. There is no finding if partitions were taken from the first process
between its two initialisations. The reason: if each partition has its own transactional id, the id returns with the
partition.

Illegal because a transactional id belongs to one producer. Two producers that share it fence each other again and
again, and neither makes progress. It is a warning, because no record is lost.
Evidence: the initialisations that returned ok, in the order of their calls.

    W1  init id=a     ok
    W2  init id=a     ok
    W1  init id=a     ok      <- contended-id

Blind spot: processes without journals; a process that gives up when it is fenced for the first time; a process whose
group rebalanced between its initialisations.
Reference: KIP-98, "transactional.id"; KIP-447.
"""

from pyspark.sql import DataFrame

from checkers.findings import AnomalyWording, finding, operation
from checkers.spark.frames import broadcast
from checkers.stored.tables import Tables
from harness.results.example import Example


def contended_id(tables: Tables) -> DataFrame:
    """Return one row for each time that a process took an id back."""
    retaken = (
        tables.inits.where("transactional_id is not null")
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
    same_process = (retaken["run"] == tables.revocations["run"]) & (
        retaken["journal"] == tables.revocations["journal"]
    )
    after_first = retaken["own_ns"] <= tables.revocations["time_ns"]
    before_second = retaken["call_ns"] >= tables.revocations["time_ns"]
    return finding(
        retaken.join(broadcast(tables.revocations), same_process & before_second & after_first, "left_anti"),
        "contended-id",
        order=["op"],
        ops="array(op)",
        transactional_id="transactional_id",
        operation=operation(),
        other_init=operation("before.op"),
        own_init=operation("own"),
    )


def _sentence(e: Example) -> str:
    other_init = e.part("other_init")
    who = other_init.words if other_init else "another process"
    return f"{e.operation} initialised {e.transactional_id} again, after {who} had initialised it"


WORDING = {
    "contended-id": AnomalyWording(
        "time, a worker took back a transactional id that it had lost",
        "times, a worker took back a transactional id that it had lost",
        "Two live workers use one transactional id and fence each other in turn.",
        _sentence,
    ),
}
