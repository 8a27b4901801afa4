"""Lost input: the group has gone past an input of which nothing came.

A visible input lies between the group's first position and its final committed offset (by fate), and
one of the slots that the workload expects of it has no visible output, though all outputs were read to
the end.

Illegal because nobody will ever read that input again.
Evidence: the expectation, the offset commits in the order in which they took effect, and the final read
of the whole output topic. A topic that was not read to its sentinels, is compacted, or begins above
offset 0, proves nothing.

    T1  poll a@4, send x=1 (from a@4), abort                       fail
    T2  poll a@5, send x=2 (from a@5), send_offsets a->6, commit     ok
    final read of x: 2                                                      <- lost-input of a@4

Blind spot: workloads that cannot say what an input leads to (aggregates have their own check).
Reference: KIP-98; Kingsbury, Bufstream 0.1.0 (2024).
"""

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.findings.build import finding
from checkers.findings.form import Finding
from checkers.findings.lookup import asked
from checkers.stored.partitions import EFFECTIVE
from checkers.stored.tables import Tables

LOST = ("run", "of", "input", "group")
"""An input that was lost: the run, its place, and the group that went past it."""


def lost_input(t: Tables) -> DataFrame:
    """One row for each input and slot."""
    lacking = F.filter(
        "expected",
        lambda e: (
            ~F.exists(
                "outputs",
                lambda o: (
                    o["visible"]
                    & F.coalesce((o["slot"] == e["slot"]) & (o["topic"] == e["topic"]), F.lit(False))
                ),
            )
        ),
    )
    due = (
        t.inputs.where("visible")
        .select("run", "tp", "offset", "outputs", F.explode(lacking).alias("e"))
        .select("run", "tp", "offset", "outputs", "e.group", "e.slot", "e.topic")
    )
    read_whole = F.expr("topic_ru_end and (topic_logged or topic_rc_end) and topic_whole")
    found = (
        due.join(F.broadcast(t.groups), on=["run", "group", "tp"], how="inner")
        .where((F.col("offset") >= F.col("first")) & (F.col("offset") < F.col("final")))
        .join(F.broadcast(t.topics), on=["run", "topic"], how="inner")
        .where(read_whole)
        .withColumn(
            "tried",
            F.filter("outputs", lambda o: (o["slot"] == F.col("slot")) & (o["topic"] == F.col("topic"))),
        )
    )
    return finding(
        found,
        "lost-input",
        order=["tp", "offset"],
        ops=F.array_distinct(F.transform("tried", lambda o: o["op"])),
        absence=True,
        input=F.struct("tp", "offset"),
        group=F.col("group"),
        slot=F.col("slot"),
        output_topic=F.col("topic"),
        final_committed=F.col("final"),
        operations=F.transform(F.slice("tried", 1, 20), lambda o: F.struct(o["op"].alias("op"))),
    )


def explain(t: Tables, findings: Mapping[int, list[Finding]]) -> None:
    """Say by which offset commit its group went past each input: the first of all that did."""
    lost = [(run, example) for run, mine in findings.items() for one in mine for example in one.examples]
    inputs: set[tuple[int, ...]] = {(run, one["input"]["tp"], one["input"]["offset"]) for run, one in lost}
    commit = F.struct(
        "offset", "tp", "producer_id", "epoch", "marker_offset", "commit.committed", "commit.op"
    )
    passed = (
        t.positions.where(F.col("fate").isin(*EFFECTIVE))
        .select("run", F.col("commit.tp").alias("of"), "commit.group", commit.alias("by"))
        .join(F.broadcast(asked(t.positions.sparkSession, LOST[:3], inputs)), on=["run", "of"])
        .where("by.committed > input")
        .groupBy(*LOST)
        .agg(F.min("by").alias("by"))
    )
    first = {tuple(row[key] for key in LOST): row["by"] for row in passed.toArrow().to_pylist()}
    for run, example in lost:
        by = first.get((run, example["input"]["tp"], example["input"]["offset"], example["group"]))
        if by is not None:
            example["passed_by"] = {name: told for name, told in by.items() if told is not None}
