"""Torn transaction: the records of one transaction do not share one fate.

With the brokers' logs: of its acknowledged records some are committed and some aborted; `open` counts
as a third fate once the transaction log no longer lists the partition as under way. Without logs: the
transaction is known to have committed, one of its values was finally read, and another, whose offset is
known and was passed by the final reader, was not. In an external history: one of its records was given
to an operation that was ok, and another is a `lost-write`.

Illegal because atomicity is what a transaction is: all of it takes effect, or nothing.
Evidence: the acknowledgements, and for each the first marker of its producer above it in the leader's
log.

    T1  send x=1, send y=2, commit     ok
    log of x: 1 at offset 4, commit at offset 5
    log of y: 2 at offset 7, abort at offset 8      <- torn-transaction

Blind spot: records that were never acknowledged; pipelines that say nothing of their transactions.
Reference: KAFKA-17754; Jepsen on Bufstream 0.1.0 (2024).
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.external.records import LOST
from checkers.external.tables import ExternalTables
from checkers.findings.build import finding, operation
from checkers.stored.tables import Tables


def torn_transaction(t: Tables) -> DataFrame:
    """One row for each transaction."""
    by_log = t.operations.where("transactional").select(
        "run",
        "op",
        "settled",
        "records",
        F.array_distinct(
            F.transform(
                F.filter(
                    "records",
                    lambda r: (
                        r["acked"] & r["effect"].isNotNull() & ((r["effect"] != "open") | r["abandoned"])
                    ),
                ),
                lambda r: r["effect"],
            )
        ).alias("fates"),
        F.exists("records", lambda r: ~r["logged"] & r["given"]).alias("some_read"),
        F.exists("records", lambda r: ~r["logged"] & r["passed"] & ~r["given"]).alias("some_unread"),
    )
    differ = F.size("fates") > 1
    half_read = (F.col("settled") == "committed") & F.col("some_read") & F.col("some_unread")
    return finding(
        by_log.where(differ | half_read),
        "torn-transaction",
        order=["op"],
        ops=F.array("op"),
        absence=~differ,
        operation=operation(),
        fates=F.col("fates"),
        records=F.transform(
            F.slice(F.filter("records", lambda r: r["acked"]), 1, 20),
            lambda r: F.struct(
                r["tp"].alias("tp"),
                r["offset"].alias("offset"),
                r["value"].alias("value"),
                r["given"].alias("given"),
            ),
        ),
    )


def torn_transaction_external(t: ExternalTables) -> DataFrame:
    """One row for each transaction of an external history that was read in part: one of its records was
    ok-read, and another is lost though its offset is known.
    """
    lost_record = F.struct("key", "value", F.col("lowest_offset").alias("offset"))
    lost = (
        t.values.where(LOST)
        .groupBy("run", F.col("writer").alias("op"))
        .agg(F.array_sort(F.collect_set(lost_record)).alias("unread"))
    )
    read = t.siblings.groupBy("run", "op").agg(
        F.array_sort(F.collect_set(F.struct("key", "value", "offset"))).alias("read")
    )
    torn = read.join(lost, on=["run", "op"], how="inner")
    return finding(
        torn,
        "torn-transaction",
        order=["op"],
        ops=F.array("op"),
        absence=True,
        operation=operation(),
        read=F.slice("read", 1, 20),
        unread=F.slice("unread", 1, 20),
    )
