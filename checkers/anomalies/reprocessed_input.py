"""Reprocessed input: an input took effect more than once.

For one input and one slot more visible outputs stand in the logs than the workload expects (one, if it
says nothing of this slot). Where the workload expects no output of an input (a filter, an aggregate):
the input lies in the ranges that two committed transactions of one group claimed.

Illegal because exactly-once means just this: each input takes effect once.
Evidence: outputs name their inputs and their slot in headers; visible is what the log's markers say.

    T1  poll a@4, send x=1 (from a@4), commit     ok
    T2  poll a@4, send x=2 (from a@4), commit     ok
    final read of x: 1 and 2                            <- reprocessed-input

Blind spot: outputs that do not say where they come from.
Reference: KIP-98; Wang et al. 2021, "Consistency and Completeness" (SIGMOD).
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.findings.build import finding
from checkers.stored.tables import Tables

NAME = "reprocessed-input"


def reprocessed_input(t: Tables) -> DataFrame:
    """One row for each input and slot, or for each input and group."""
    return _by_slot(t).unionByName(_by_claim(t))


def _by_slot(t: Tables) -> DataFrame:
    visible = t.inputs.select(
        "run",
        "tp",
        "offset",
        "expected",
        F.filter("outputs", lambda o: o["visible"] & o["slot"].isNotNull()).alias("outputs"),
    ).where("size(outputs) > 1")
    slots = F.array_distinct(
        F.transform("outputs", lambda o: F.struct(o["slot"].alias("slot"), o["topic"].alias("topic")))
    )
    each = visible.select("*", F.explode(slots).alias("key")).select(
        "run",
        "tp",
        "offset",
        "key",
        F.size(
            F.filter(
                "expected", lambda e: (e["slot"] == F.col("key.slot")) & (e["topic"] == F.col("key.topic"))
            )
        ).alias("due"),
        F.filter(
            "outputs", lambda o: (o["slot"] == F.col("key.slot")) & (o["topic"] == F.col("key.topic"))
        ).alias("outputs"),
    )
    values = F.size(F.array_distinct(F.transform("outputs", lambda o: o["name"])))
    return finding(
        each.where(values > F.greatest("due", F.lit(1))),
        NAME,
        order=["tp", "offset"],
        ops=F.array_distinct(F.transform("outputs", lambda o: o["op"])),
        input=F.struct("tp", "offset"),
        slot=F.col("key.slot"),
        expected=F.greatest("due", F.lit(1)),
        records=F.transform(
            F.slice("outputs", 1, 20),
            lambda o: F.struct(
                o["tp"].alias("tp"),
                o["offset"].alias("offset"),
                o["name"].alias("value"),
                o["op"].alias("op"),
            ),
        ),
    )


def _by_claim(t: Tables) -> DataFrame:
    committed = F.filter(
        "claims",
        lambda c: (
            (c["settled"] == "committed")
            & c["transactional"]
            & ~F.exists("expected", lambda e: e["group"] == c["group"])
        ),
    )
    claimed = (
        t.inputs.where("visible")
        .select("run", "tp", "offset", committed.alias("claims"))
        .where("size(claims) > 1")
    )
    groups = F.array_distinct(F.transform("claims", lambda c: c["group"]))
    each = claimed.select("*", F.explode(groups).alias("group")).select(
        "run",
        "tp",
        "offset",
        "group",
        F.array_distinct(
            F.transform(F.filter("claims", lambda c: c["group"] == F.col("group")), lambda c: c["op"])
        ).alias("ops"),
    )
    return finding(
        each.where("size(ops) > 1"),
        NAME,
        order=["tp", "offset"],
        ops=F.col("ops"),
        input=F.struct("tp", "offset"),
        group=F.col("group"),
        operations=F.transform(F.slice("ops", 1, 20), lambda op: F.struct(op.alias("op"))),
    )
