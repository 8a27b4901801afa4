"""Dirty read: a consumer promised read committed was given a record that was not committed.

Its fate is abort, or is still open at the end; or its fate is commit and the poll had completed before
the marker was written, which is judged only where one clock serves the clients and the brokers, with a
margin of 50 ms, and not if the wall clock has moved by more than half of that. A record that the log does
not hold, or another value at its offset, is no evidence.

Illegal because read committed ends at the last stable offset, where the first open transaction begins.
Evidence: the delivery, the fate of the record in the leader's log, and the marker's time stamp.

    T1  send x=1                 info
    T2  poll x=1 at offset 4     ok
    log of x: 1 at offset 4, abort marker at offset 5      <- dirty-read

Blind spot: a poll within the margin before the marker.
Reference: Berenson et al. 1995, P1, "dirty read"; Adya 1999, G1a; KIP-98, "read_committed".
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from checkers.findings.build import finding, record
from checkers.stored.sources import CLOCK_MARGIN_MS
from checkers.stored.tables import Tables
from harness.history import Fate, Isolation


def dirty_read(t: Tables) -> DataFrame:
    """One row for each record and delivery."""
    uncommitted = F.col("fate").isin(Fate.ABORT.value, Fate.OPEN.value)
    other_value = F.coalesce(F.col("value") != F.col("stored"), F.lit(False))
    found = (
        t.deliveries.where(F.col("promised") == Isolation.READ_COMMITTED.value)
        .where(uncommitted | _too_early("return_ns"))
        .where(~other_value)
    )
    return finding(
        found,
        "dirty-read",
        order=["tp", "offset", "op", "n"],
        ops=F.concat(F.transform("acks", lambda ack: ack["op"]), F.array("op")),
        record=record("tp", "offset", "value"),
        reader=F.struct("op", "n", "role"),
        early_ms=F.when(_too_early("return_ns"), F.round(F.col("marker_ms") - _wall_ms("return_ns"), 1)),
    )


def _wall_ms(time_ns: str) -> Column:
    return F.col("wall_ms") + F.col(time_ns) / F.lit(1e6)


def _too_early(time_ns: str) -> Column:
    """The poll had returned before the commit marker was written; false where the clocks are not one."""
    early = (F.col("fate") == Fate.COMMIT.value) & (_wall_ms(time_ns) + CLOCK_MARGIN_MS < F.col("marker_ms"))
    return F.coalesce(early, F.lit(False))
