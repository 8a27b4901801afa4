"""Stuck completion: a transaction was decided, and its coordinator never finished it.

After quiescence the last word of the transaction log on a transactional id is PrepareCommit or
PrepareAbort, written more than 30 s before the run's sentinels were: three times as long as a coordinator
waits between two looks at its transactions (10 s).

Illegal because a decided transaction must be completed: until then its producer, and whoever comes after
it, is told CONCURRENT_TRANSACTIONS.
Evidence: the leader's log of `__transaction_state`, whole to its end, and the time of the sentinels. A
run that was cut short is not judged.

    transaction log: id Ongoing [x]
    transaction log: id PrepareCommit [x]             <- stuck-completion, if nothing follows
    sentinels, 30 s later

Blind spot: one that was decided less than 30 s before the end.
Reference: KIP-98, "transaction coordinator"; KIP-664.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.findings.build import finding
from checkers.stored.tables import Tables


def stuck_completion(t: Tables) -> DataFrame:
    """One row for each transactional id."""
    return finding(
        t.states.where("late"),
        "stuck-completion",
        order=["log_tp", "log_offset"],
        absence=True,
        transactional_id=F.col("transactional_id"),
        state=F.col("state"),
        producer_id=F.col("producer_id"),
        epoch=F.col("epoch"),
        record=F.struct(
            F.col("log_tp").alias("tp"), F.col("log_offset").alias("offset"), "producer_id", "epoch", "state"
        ),
        partitions=F.transform("tps", lambda tp: F.struct(tp.alias("tp"))),
        update_ms=F.col("update_ms"),
    )
