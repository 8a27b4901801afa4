"""Lost commit: the client was told that its transaction had committed, and part of it did not.

A record of it that stands in the log, or its offset commit, has fate abort; or a record that was
acknowledged to it is gone from the log; or its offset commit is gone, where every offset commit of the run's
groups is in an uncompacted log and names its operation.

Illegal because a completed commit is a promise: the inputs will not be read again, so what is lost
stays lost.
Evidence: the completion `ok` of a commit, and the fates in the leaders' logs. An `info` commit is no
evidence.

    T1  send x=1, send_offsets y->5, commit     ok
    log of x: 1 at offset 4, abort at offset 5              <- lost-commit
    log of __consumer_offsets: y->5, commit

Blind spot: records that were never acknowledged with an offset and are gone.
Reference: KAFKA-17754; Jepsen on Bufstream 0.1.0 (2024), "lost writes".
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from checkers.findings.build import finding, operation
from checkers.stored.tables import Tables


def lost_commit(t: Tables) -> DataFrame:
    """One row for each transaction."""
    committed = t.operations.where("transactional and told = 'committed'").join(
        F.broadcast(t.runs), on="run", how="left"
    )
    undone = F.filter("records", lambda r: r["effect"] == "abort")
    gone = F.filter("records", lambda r: r["covered"] & ~r["held"])
    offsets = F.filter("commits", lambda c: c["transactional"] & (c["effect"] == "abort"))
    parts = committed.select(
        "run", "op", "claims",
        undone.alias("undone"), gone.alias("gone"), offsets.alias("offsets"),
        ((F.size("claims") > 0) & (F.size("commits") == 0) & F.col("commits_whole")).alias("no_offsets"),
    )  # fmt: skip
    found = parts.where("size(undone) > 0 or size(gone) > 0 or size(offsets) > 0 or no_offsets")
    return finding(
        found,
        "lost-commit",
        order=["op"],
        ops=F.array("op"),
        absence=F.expr("size(undone) = 0 and size(offsets) = 0"),
        operation=operation(),
        aborted_records=_records("undone"),
        gone_records=_records("gone"),
        aborted_offsets=F.transform(
            "offsets", lambda c: F.struct(c["tp"].alias("tp"), c["committed"].alias("committed"))
        ),
        gone_offsets=F.when(
            F.col("no_offsets"),
            F.transform("claims", lambda c: F.struct(c["tp"].alias("tp"), c["next"].alias("committed"))),
        ),
    )


def _records(column: str) -> Column:
    return F.transform(
        F.slice(column, 1, 20),
        lambda r: F.struct(r["tp"].alias("tp"), r["offset"].alias("offset"), r["value"].alias("value")),
    )
