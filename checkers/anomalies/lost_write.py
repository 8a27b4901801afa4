"""Lost write: a record that was acknowledged is not where it was put.

Two clauses. The final read-committed reader read on beyond the record's offset and was not given it,
though its transaction committed (or it had none). Or the log does not hold the acknowledged (partition,
offset), or holds another value there; this one counts for aborted transactions too. In a history from
elsewhere, which names neither: its operation must have committed, no operation that was ok was given it,
and one was given a record that stands as high in its key or higher (of a value at several offsets the highest
counts).

Illegal because an acknowledgement under acks=all promises that the record outlives every tolerated
fault.
Evidence: the acknowledgement (partition and offset), and the final read or the leader's log. A
compacted partition, an offset below the start of the log or of the read, and a partition whose reader
did not get so far prove nothing.

    T1  send x=1, ok at offset 4, commit     ok
    T2  send x=2, ok at offset 5, commit     ok
    final read of x: 2 at offset 5                  <- lost-write of 1

Blind spot: a record lost without an acknowledgement that named its offset.
Reference: Jepsen's Kafka checker, `lost-write`; Jepsen on Redpanda 21.10.1 (2022) and Bufstream 0.1.0 (2024).
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.external.records import LOST
from checkers.external.tables import ExternalTables
from checkers.findings.build import finding, operation, record
from checkers.stored.tables import Tables


def lost_write(t: Tables) -> DataFrame:
    """One row for each acknowledged record that is gone."""
    sent = t.operations.select("run", "op", "settled", F.explode("records").alias("r"))
    unread = (F.col("settled") == "committed") & F.col("r.passed") & ~F.col("r.given")
    gone = F.col("r.covered") & ~F.col("r.held")
    lost = sent.where(unread | gone)
    return finding(
        lost,
        "lost-write",
        order=["r.tp", "r.offset", "op"],
        ops=F.array("op"),
        absence=~(gone & F.col("r.other")),
        record=record("r.tp", "r.offset", "r.value"),
        operation=operation(),
        log_holds=F.when(
            F.col("r.logged"),
            F.when(F.col("r.held"), "it").when(F.col("r.other"), "another value").otherwise("nothing"),
        ),
        finally_read=F.when(F.col("r.passed"), F.col("r.given")),
    )


def lost_write_external(t: ExternalTables) -> DataFrame:
    """One row for each record of an external history that ok-reads passed by, though it committed.

    Passed by: its highest index is at or below the highest index of its key that was ok-read.
    """
    return finding(
        t.values.where(LOST),
        "lost-write",
        order=["key", "value"],
        ops=F.array("writer"),
        absence=True,
        record=F.struct("key", "value", F.col("lowest_offset").alias("offset")),
        operation=operation("writer"),
        read_beyond=F.struct(
            F.col("passer").alias("op"),
            "key",
            F.col("passer_value").alias("value"),
            F.col("passer_offset").alias("offset"),
        ),
    )
