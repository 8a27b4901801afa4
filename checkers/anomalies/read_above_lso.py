"""Read above the last stable offset: a consumer went past a transaction that was still open.

A consumer promised read committed was given a record above the first open record of its partition: one that
is transactional, and has no marker of its producer above it. It was open when the reader passed it, for
it is open to this day.

Illegal because read committed ends at the last stable offset, where the first open transaction begins: what
stands there may still be committed, and who has gone past it will never be given it.
Evidence: the delivery, and the leader's log.

    log of x: 1 at offset 4 of producer 7, no marker of producer 7 above it
    T1  poll x: 2 at offset 5     ok                                             <- read-above-lso

Blind spot: a transaction that was open when the reader passed it, and was ended later.
Reference: KIP-98, "last stable offset"; KAFKA-14402.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.findings.build import finding, record
from checkers.stored.tables import Tables
from harness.history import Isolation


def read_above_lso(t: Tables) -> DataFrame:
    """One row for each record and delivery."""
    found = t.deliveries.where(F.col("above") & (F.col("promised") == Isolation.READ_COMMITTED.value))
    return finding(
        found,
        "read-above-lso",
        order=["tp", "offset", "op", "n"],
        ops=F.concat(F.transform("acks", lambda ack: ack["op"]), F.array("op")),
        record=record("tp", "offset", "value"),
        record_open=F.struct("tp", F.col("first_open").alias("offset")),
        reader=F.struct("op", "n", "role"),
    )
