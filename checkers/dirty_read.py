"""Dirty read: a consumer promised read committed was given a record that was not committed.

Its fate is abort, or is still open at the end; or its fate is commit and the poll had completed before the
marker was written, which is judged only where one clock serves the clients and the brokers, with a margin of
50 ms. A record that the log does not hold, or another value at its offset, is no evidence.

Illegal because read committed ends at the last stable offset, where the first open transaction begins.
Evidence: the delivery, the fate of the record in the leader's log, and the marker's time stamp.

    T1  send x=1                 info
    T2  poll x=1 at offset 4     ok
    log of x: 1 at offset 4, abort marker at offset 5      <- dirty-read

Blind spot: a poll within the margin before the marker.
Reference: Adya 1999, G1a and G1b; KIP-98, "read_committed".
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.finding import finding, record
from checkers.tables import Tables
from harness.history import Fate, Isolation

MARGIN_MS = 50.0


def dirty_read(t: Tables) -> DataFrame:
    """One row for each record and delivery."""
    promised = F.filter("polls", lambda poll: poll["promised"] == Isolation.READ_COMMITTED.value)
    polled = (
        t.positions.where("held and not internal and not sentinel")
        .where("fate != 'plain'")
        .select(
            "run",
            "tp",
            "offset",
            "fate",
            "found",
            "value",
            "marker_offset",
            "marker_ms",
            "acks",
            F.explode(promised).alias("r"),
        )
    )
    other_value = F.col("found") & F.coalesce(F.col("r.value") != F.col("value"), F.lit(False))
    polled_ms = F.col("wall_ms") + F.col("r.return_ns") / F.lit(1e6)
    too_early = (F.col("fate") == Fate.COMMIT.value) & (polled_ms + MARGIN_MS < F.col("marker_ms"))
    found = (
        polled.join(F.broadcast(t.runs), on="run", how="left")
        .withColumn("early", F.coalesce(too_early, F.lit(False)))
        .where(F.col("early") | F.col("fate").isin(Fate.ABORT.value, Fate.OPEN.value))
        .where(~other_value)
    )
    return finding(
        found,
        "dirty-read",
        order=["tp", "offset", "r.op", "r.n"],
        ops=F.concat(F.transform("acks", lambda ack: ack["op"]), F.array("r.op")),
        record=record("tp", "offset", F.col("r.value")),
        reader=F.struct("r.op", "r.n", "r.role"),
        early_ms=F.when(F.col("early"), F.round(F.col("marker_ms") - polled_ms, 1)),
    )
