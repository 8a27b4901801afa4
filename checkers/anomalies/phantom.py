"""Phantom: a visible record that nobody announced, or that comes from no visible input.

Every process of the run writes down what it is about to send before it sends it, so a visible record
whose value nobody announced was made by somebody else. And an output names the inputs that it comes
from: if one of them is aborted, still open at the end, or not there, a consumer acted on what it must
not have seen.

Illegal because an effect without a cause is no effect of this pipeline.
Evidence: the journals; the values of one whose last line is torn, or that has gaps, are not accused.
The input's fate in the leader's log; where there is none, a final read that went on beyond the input. A
record that bears no name is accused only in topics to which somebody announced sends.

    T1  send x=1, abort                                 fail
    T2  poll x=1, send y=2 (from x@4), commit     ok
    log of x: 1 at offset 4, abort at offset 5                 <- phantom: y=2

Blind spot: of pipelines that announce nothing only the inputs are looked at.
Reference: Jepsen's Kafka checker, which throws on such a record.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.external.tables import ExternalTables
from checkers.findings.build import finding, operation, record
from checkers.stored.tables import Tables

NAME = "phantom"
JOURNAL = r"^(.+):\d+:\d+$"


def phantom(t: Tables) -> DataFrame:
    """One row for each record, or for each record and invisible input."""
    return _unannounced(t).unionByName(_from_nothing(t))


def _unannounced(t: Tables) -> DataFrame:
    visible = (
        t.values.where("send is null")
        .select("run", "value", F.explode("places").alias("place"))
        .where("place.visible")
        .select(
            "run", "value", "place", "place.topic", F.regexp_extract("value", JOURNAL, 1).alias("journal")
        )
    )
    foreign = F.col("value").isNull() | (F.col("journal") == "")
    found = (
        visible.join(F.broadcast(t.journals), on=["run", "journal"], how="left")
        .join(F.broadcast(t.topics), on=["run", "topic"], how="left")
        .where(F.when(foreign, F.col("announced")).otherwise(F.coalesce("intact", F.lit(False))))
    )
    return finding(
        found,
        NAME,
        order=["place.tp", "place.offset"],
        absence=True,
        record=record("place.tp", "place.offset", "value"),
        why=F.lit("nobody announced it"),
    )


def _from_nothing(t: Tables) -> DataFrame:
    refuted = F.coalesce(F.col("fate").isin("abort", "open"), F.lit(False))
    absent = F.col("fate").isNull() & F.col("judgeable")
    found = (
        t.inputs.where("not visible")
        .where(refuted | absent)
        .select(
            "run",
            "tp",
            "offset",
            "fate",
            F.explode(F.filter("outputs", lambda o: o["visible"])).alias("output"),
        )
    )
    return finding(
        found,
        NAME,
        order=["output.tp", "output.offset", "tp", "offset"],
        ops=F.array("output.op"),
        absence=F.col("fate").isNull(),
        record=record("output.tp", "output.offset", "output.name"),
        operation=F.struct("output.op"),
        input=F.struct("tp", "offset", "fate"),
        why=F.lit("its input is not visible"),
    )


def phantom_external(t: ExternalTables) -> DataFrame:
    """One row for each record of an external history that was polled, and that no operation sent."""
    read = t.reads.where("writer is null")
    found = read.groupBy("run", "key", "value").agg(F.min(F.struct("op", "offset")).alias("read"))
    return finding(
        found.select("run", "key", "value", "read.*"),
        NAME,
        order=["key", "value"],
        ops=F.array("op"),
        absence=True,
        record=F.struct("key", "value", "offset"),
        reader=operation(),
        why=F.lit("nobody sent it"),
    )
