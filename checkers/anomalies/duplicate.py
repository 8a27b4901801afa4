"""Duplicate: one value stands at more than one offset.

A value names one attempt to send. If it stands twice in the logs, a client or a broker wrote one
attempt twice, which an idempotent producer excludes. What the feeder wrote is exempt: an input that was
repeated is two inputs, and the pipeline must take each of them once.

Illegal because every reader of the topic takes the record twice, whatever the transactions say.
Evidence: the final read, which came upon one value at two places; in an external history all offsets at
which a value was given, or was sent by an operation that must have committed.

    T1  send x=1            info
    final read of x: 1 at offset 4
    final read of x: 1 at offset 6          <- duplicate

Blind spot: a repeated attempt bears another value; that is `reprocessed-input`.
Reference: Jepsen's Kafka checker, `duplicate`.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.external.tables import ExternalTables
from checkers.findings.build import finding, operation, operations
from checkers.stored.tables import Tables
from harness.history import Role


def duplicate(t: Tables) -> DataFrame:
    """One row for each value with several places."""
    places = F.transform("places", lambda p: F.struct(p["tp"].alias("tp"), p["offset"].alias("offset")))
    ours = F.col("value").isNotNull() & ~F.col("send.role").eqNullSafe(F.lit(Role.FEEDER.value))
    found = (
        t.values.where(ours)
        .select("run", "value", "send", F.array_sort(F.array_distinct(places)).alias("places"))
        .where("size(places) > 1")
    )
    return finding(
        found,
        "duplicate",
        order=[F.get("places", F.lit(0))["tp"], F.get("places", F.lit(0))["offset"]],
        ops=F.array("send.op"),
        value=F.col("value"),
        operation=operation("send.op"),
        records=F.transform(
            F.slice("places", 1, 20),
            lambda p: F.struct(
                p["tp"].alias("tp"), p["offset"].alias("offset"), F.col("value").alias("value")
            ),
        ),
    )


def duplicate_external(t: ExternalTables) -> DataFrame:
    """One row for each record of an external history that stands at several offsets."""
    several = t.values.where("lowest < highest").select("run", "key", "value")
    places = (
        t.steps.join(F.broadcast(several), on=["run", "key", "value"], how="inner")
        .groupBy("run", "key", "value")
        .agg(F.array_sort(F.collect_set("offset")).alias("offsets"), F.collect_set("op").alias("ops"))
    )
    return finding(
        places,
        "duplicate",
        order=["key", "value"],
        ops=F.col("ops"),
        record=F.struct("key", "value"),
        offsets=F.slice("offsets", 1, 20),
        operations=operations("ops"),
    )
