"""Ghost commit: a transaction took effect although nobody committed it.

Its records or its offset commit have fate commit, though its client never invoked the commit, or was
told that it had not happened, or had asked for an abort.

Illegal because the inputs of such a transaction are read again, and its outputs then stand twice.
Evidence: the journal, which is written before the act (a journal with missing lines is no evidence),
and the first marker of the producer above the record.

    T1  send x=1, abort     fail
    log of x: 1 at offset 4, commit at offset 5      <- ghost-commit

Blind spot: an `info` whose commit was invoked may end either way.
Reference: KAFKA-17754; Jepsen on Bufstream 0.1.0 (2024), "aborted read".
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.findings.build import finding, operation
from checkers.stored.tables import Tables


def ghost_commit(t: Tables) -> DataFrame:
    """One row for each transaction."""
    unasked = (F.col("told") == "aborted") | (
        (F.col("told") == "unknown") & F.col("operation.commit_ns").isNull()
    )
    sound = t.journals.where("unbroken").select("run", "journal")
    found = (
        t.operations.where("transactional")
        .where(unasked)
        .select(
            "run", "op", "told", F.col("operation.journal").alias("journal"),
            F.filter("records", lambda r: r["effect"] == "commit").alias("records"),
            F.filter("commits", lambda c: c["transactional"] & (c["effect"] == "commit")).alias("offsets"),
        )
        .where("size(records) > 0 or size(offsets) > 0")
        .join(F.broadcast(sound), on=["run", "journal"], how="left_semi")
    )  # fmt: skip
    return finding(
        found,
        "ghost-commit",
        order=["op"],
        ops=F.array("op"),
        operation=operation(),
        told=F.when(F.col("told") == "aborted", "it had not happened").otherwise(
            "nothing: the commit was never invoked"
        ),
        records=F.transform(
            F.slice("records", 1, 20),
            lambda r: F.struct(r["tp"].alias("tp"), r["offset"].alias("offset"), r["value"].alias("value")),
        ),
        offsets=F.transform(
            "offsets", lambda c: F.struct(c["tp"].alias("tp"), c["committed"].alias("committed"))
        ),
    )
