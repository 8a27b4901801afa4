"""Inconsistent offsets: one offset of one partition was seen with different values.

An offset names one record, for ever. If two operations were told of different values at the same place,
the log was cut and written anew, or two leaders wrote at once.

Illegal because every consumer's position is an offset: who reads from the same one must go on with the
same record.
Evidence: what polls were given, those of `info` and `fail` operations too, and what sends of operations
that must have committed were told; in a stored run what any consumer was given, what the final
read-uncommitted reader found, and every acknowledgement, for a broker gives none before the record has its
place.

    T1  poll x: 1 at offset 4      ok
    T2  poll x: 2 at offset 4      ok      <- inconsistent-offsets

Blind spot: a record that nobody was given before it was cut off, and whose sender was not told its offset.
Reference: Jepsen's Kafka checker, `inconsistent-offsets`; Kingsbury, Redpanda 21.10.1 (2022).
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.external.tables import ExternalTables
from checkers.findings.build import finding, operations
from checkers.stored.tables import Tables

NAME = "inconsistent-offsets"


def inconsistent_offsets(t: Tables) -> DataFrame:
    """One row for each offset with several values."""
    found = F.when(F.col("found"), F.struct("value", F.lit(None).cast("bigint").alias("op")))
    acked = F.transform("acks", lambda ack: F.struct(ack["value"].alias("value"), ack["op"].alias("op")))
    stored = t.positions.where("differ").select(
        "run", "tp", "offset", F.explode(F.concat(F.array(found), acked)).alias("told")
    )
    given = t.deliveries.where("differ").select("run", "tp", "offset", F.struct("value", "op").alias("told"))
    places = (
        stored.unionByName(given)
        .where("told.value is not null")
        .groupBy("run", "tp", "offset")
        .agg(
            F.array_sort(F.collect_set("told.value")).alias("values"),
            F.collect_set("told.op").alias("ops"),
        )
    )
    return finding(
        places,
        NAME,
        order=["tp", "offset"],
        ops=F.col("ops"),
        place=F.struct("tp", "offset"),
        records=F.transform(
            F.slice("values", 1, 20),
            lambda value: F.struct(
                F.col("tp").alias("tp"), F.col("offset").alias("offset"), value.alias("value")
            ),
        ),
        operations=operations("ops"),
    )


def inconsistent_offsets_external(t: ExternalTables) -> DataFrame:
    """One row for each offset with several values."""
    found = (
        t.steps.where("clash")
        .groupBy("run", "key", "offset")
        .agg(F.array_sort(F.collect_set("value")).alias("values"), F.collect_set("op").alias("ops"))
    )
    return finding(
        found,
        NAME,
        order=["key", "offset"],
        ops=F.col("ops"),
        place=F.struct("key", "offset"),
        records=F.transform(
            F.slice("values", 1, 20), lambda value: F.struct(F.col("key").alias("key"), value.alias("value"))
        ),
        operations=operations("ops"),
    )
