"""Overlapping commit: two transactions took the same inputs, and both committed.

The ranges of input of two operations of one group intersect, from the first input that each took to the
offset that it committed, and both offset commits stand in the log as part of a committed transaction.

Illegal because a group's committed offset is the one thing that divides its inputs: each input belongs to the
one transaction that stepped over it.
Evidence: the journal's claims, and the fates of the offset commits in the leader's log of
`__consumer_offsets`.

    T1  poll a@4 to a@6, send_offsets a->7, commit     ok
    T2  poll a@6 to a@8, send_offsets a->9, commit     ok      <- overlapping-commit

Blind spot: offset commits that are gone (their topic is compacted), those that bear no operation's name, and
those outside any transaction.
Reference: KIP-447, "zombie fencing by generation"; Wang et al. 2021, "Consistency and Completeness" (SIGMOD).
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.findings.build import finding
from checkers.stored.tables import Tables


def overlapping_commit(t: Tables) -> DataFrame:
    """One row for each range that begins inside another."""
    found = t.ranges.where("effective and next > first and overlaps.next > first and overlaps.op != op")
    return finding(
        found,
        "overlapping-commit",
        order=["tp", "first", "op"],
        ops=F.array("overlaps.op", "op"),
        group=F.col("group"),
        input=F.struct("tp", F.col("first").alias("offset")),
        claims=F.array(F.struct("tp", "overlaps.first", "overlaps.next"), F.struct("tp", "first", "next")),
        shared=F.least("overlaps.next", "next") - F.col("first"),
        operations=F.array(F.struct("overlaps.op"), F.struct("op")),
    )
