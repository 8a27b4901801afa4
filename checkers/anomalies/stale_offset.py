"""Stale offset: a worker began below an offset that had been committed before.

The first record that a process was given of a partition, after the partition had been assigned to it, stands
below an offset of the group whose commit had completed ok before the assignment. A poll in which the
partition was also taken away is not judged: it may still hold records of before.

Illegal because whoever takes a partition over begins where the group stands; below it every input was
processed, and will be again.
Evidence: times of assignments, polls and commits, on one clock; what was told to the committer, and that the
offset commit stands in the log as part of a transaction, or was one outside any that returned ok. In a run
without the log of offset commits what was told to the committer is enough.

    W1  poll a@4, send_offsets a->5, commit     ok
    W2  is assigned a
    W2  poll a@4                                ok      <- stale-offset

Blind spot: a worker whose first record stands above the offset, though it began to read below.
Reference: KIP-447, "unstable offset commits"; KAFKA-9346.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.findings.build import finding
from checkers.stored.tables import Tables


def stale_offset(t: Tables) -> DataFrame:
    """One row for each beginning."""
    return finding(
        t.ranges.where("gained_ns is not null and stale.next > first"),
        "stale-offset",
        order=["tp", "op"],
        ops=F.array("op", "stale.op"),
        group=F.col("group"),
        input=F.struct("tp", F.col("first").alias("offset")),
        committed=F.col("stale.next"),
        assigned_ns=F.col("gained_ns"),
        reader=F.struct("op", "n"),
        operation=F.struct("stale.op"),
    )
