"""Corrupt: a record's content is not what it must be.

Key, value and headers differ, by hash, from what was sent; or a visible output differs from what the
workload's transform makes of its input, where the transform is deterministic and the output comes from
one input.

Illegal because a record that arrives is meant to arrive as it was.
Evidence: the hashes in the sender's journal, in the workload's expectation, and of the record in the
final read. The header that names the attempt is left out of the hash, for it differs at each attempt.

    T1  send x=1, hash 77     ok
    final read of x: 1 at offset 4, hash 78      <- corrupt
    final read of x: 2 at offset 5, hash 79

Blind spot: records of which nobody recorded a hash.
Reference: Kafka's CRC covers a batch on its way and at rest, not what a client put into it.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.findings.build import finding, record
from checkers.stored.tables import Tables

NAME = "corrupt"


def corrupt(t: Tables) -> DataFrame:
    """One row for each record and clause."""
    return _from_sent(t).unionByName(_from_expected(t))


def _from_sent(t: Tables) -> DataFrame:
    # A pipeline may forward the header that names a value: it means the record of one topic.
    changed = F.filter(
        "places",
        lambda place: (place["topic"] == F.col("send.topic")) & (place["digest"] != F.col("send.digest")),
    )
    found = t.values.select("run", "value", "send", F.explode(changed).alias("place"))
    return finding(
        found,
        NAME,
        order=["place.tp", "place.offset"],
        ops=F.array("send.op"),
        record=record("place.tp", "place.offset", "value"),
        operation=F.struct("send.op"),
        why=F.lit("it differs from what was sent"),
    )


def _from_expected(t: Tables) -> DataFrame:
    outputs = t.inputs.select(
        "run", "tp", "offset", "expected",
        F.explode(
            F.filter("outputs", lambda o: o["visible"] & o["sole"] & o["digest"].isNotNull())
        ).alias("o"),
    )  # fmt: skip
    meant = F.filter("expected", lambda e: (e["slot"] == F.col("o.slot")) & (e["topic"] == F.col("o.topic")))
    found = outputs.withColumn("meant", F.transform(meant, lambda e: e["digest"])).where(
        (F.size("meant") > 0)
        & F.forall("meant", lambda digest: F.coalesce(digest != F.col("o.digest"), F.lit(False)))
    )
    return finding(
        found,
        NAME,
        order=["o.tp", "o.offset"],
        ops=F.array("o.op"),
        record=record("o.tp", "o.offset", "o.name"),
        operation=F.struct("o.op"),
        input=F.struct("tp", "offset"),
        why=F.lit("it differs from what its input must lead to"),
    )
