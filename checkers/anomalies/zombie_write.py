"""Zombie write: somebody who had been replaced still took effect.

A batch of fate commit stands above one of a higher epoch of the same producer id in its partition. Or a
transaction committed though another process had initialised its transactional id after this process
had, and before this process asked for the commit.

Illegal because initialising a transactional id fences all who had it before; that is what keeps two
owners of one input apart.
Evidence: epochs in the leader's log; or the times of the two initialisations and of the commit, on one
clock, and that the commit took effect.

    W1  init id=a     ok
    W2  init id=a     ok
    W1  send x=1, commit     ok      <- zombie-write

Blind spot: zombies under another transactional id; the group's generation must stop those (KIP-447).
Reference: KIP-98, "fencing zombies"; KIP-360.
"""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from checkers.findings.build import finding, operation
from checkers.stored.tables import Tables

NAME = "zombie-write"


def zombie_write(t: Tables) -> DataFrame:
    """One row for each batch, and one for each transaction."""
    return _by_epoch(t).unionByName(_by_owner(t))


def _by_epoch(t: Tables) -> DataFrame:
    found = t.batches.where("transactional and fate = 'commit' and epoch < epoch_before")
    return finding(
        found,
        NAME,
        order=["tp", "base_offset"],
        record=F.struct("tp", F.col("base_offset").alias("offset")),
        epoch=F.col("epoch"),
        epoch_before=F.col("epoch_before"),
        why=F.lit("a higher epoch stands below it"),
    )


def _by_owner(t: Tables) -> DataFrame:
    took_effect = F.exists("records", lambda r: r["effect"] == "commit") | F.exists(
        "commits", lambda c: c["effect"] == "commit"
    )
    unlogged = (
        (F.size("records") > 0)
        & F.forall("records", lambda r: ~r["logged"])
        & (F.col("settled") == "committed")
    )
    commits = (
        t.operations.where("operation.commit_ns is not null")
        .where(took_effect | unlogged)
        .select(
            "run",
            "op",
            "operation.transactional_id",
            "operation.journal",
            F.col("operation.commit_ns").alias("time_ns"),
        )
    )
    inits = t.inits.select(
        "run", "transactional_id", "journal",
        F.col("return_ns").alias("time_ns"),
        F.struct("call_ns", "return_ns", F.col("op").alias("op"), "journal").alias("init"),
    )  # fmt: skip
    by_id = (
        Window.partitionBy("run", "transactional_id")
        .orderBy("time_ns")
        .rangeBetween(Window.unboundedPreceding, -1)
    )
    by_owner = Window.partitionBy("run", "transactional_id", "journal").orderBy("time_ns")
    found = (
        commits.unionByName(inits, allowMissingColumns=True)
        .withColumn("latest", F.max("init").over(by_id))
        .withColumn("own", F.last("init", ignorenulls=True).over(by_owner))
        .where("op is not null and latest.journal != journal and latest.call_ns > own.return_ns")
    )
    return finding(
        found,
        NAME,
        order=["op"],
        ops=F.array("op"),
        operation=operation(),
        own_init=F.struct("own.op"),
        other_init=F.struct("latest.op"),
        why=F.lit("another process had initialised its transactional id"),
    )
