"""Transaction state violation: a coordinator went from one state to another that may not follow it.

    Empty                  after Empty, CompleteCommit, CompleteAbort
    Ongoing                after Ongoing, Empty, CompleteCommit, CompleteAbort
    PrepareCommit          after Ongoing
    PrepareEpochFence      after Ongoing
    PrepareAbort           after Ongoing, PrepareEpochFence; with a higher epoch also after Empty,
                           CompleteCommit, CompleteAbort
    CompleteCommit         after PrepareCommit
    CompleteAbort          after PrepareAbort
    Dead                   after Empty, CompleteCommit, CompleteAbort
    forgotten              after Dead, Empty, CompleteCommit, CompleteAbort

The first state of a transactional id in the log is not judged, nor the one after it was forgotten (a
tombstone). A state that says the same as the one before it is a second attempt to write it. And a state
may stand in the log without holding: when its replicas do not confirm it in time, the coordinator goes on
from the one before it. So a state is accused only if it may follow neither the one before it nor, where
that one may not have held, one of the two before that.

Illegal because a transaction that was not prepared cannot be complete, and one that is prepared is
decided.
Evidence: the order of the states in the leader's log of `__transaction_state`.

    transaction log: id Ongoing [x]
    transaction log: id PrepareCommit [x]
    transaction log: id CompleteAbort                <- transaction-state-violation

Blind spot: what a coordinator did without writing it; a wrong step that looks like an unconfirmed one.
Reference: Kafka 4.3, `TransactionState`: the valid previous states; KIP-890 for PrepareAbort with a
higher epoch, where the client does not know that nothing was begun.
"""

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from checkers.findings.build import finding, state
from checkers.stored.producers import COMPLETE
from checkers.stored.tables import Tables

RESTING = ("Empty", *COMPLETE)
PREVIOUS = {
    "Empty": RESTING,
    "Ongoing": ("Ongoing", *RESTING),
    "PrepareCommit": ("Ongoing",),
    "PrepareAbort": ("Ongoing", "PrepareEpochFence"),
    "CompleteCommit": ("PrepareCommit",),
    "CompleteAbort": ("PrepareAbort",),
    "PrepareEpochFence": ("Ongoing",),
    "Dead": RESTING,
    "Tombstone": ("Dead", *RESTING),
}
"""By state, those that it may follow."""
FOLLOWS = [f"{before}>{after}" for after, previous in PREVIOUS.items() for before in previous]
RAISED = [f"{before}>PrepareAbort" for before in RESTING]
"""What may follow if its epoch is higher."""


def transaction_state_violation(t: Tables) -> DataFrame:
    """One row for each state that may not follow."""
    chain = ["before_3", "before_2", "before", None]
    explained = [
        reduce(Column.__and__, (_follows(chain[at], after) for after in chain[at + 1 :])) for at in (2, 1, 0)
    ]
    legal = reduce(Column.__or__, (F.coalesce(one, F.lit(False)) for one in explained))
    found = t.states.where(F.col("before").isNotNull()).where(~legal)
    return finding(
        found,
        "transaction-state-violation",
        order=["log_tp", "log_offset"],
        transactional_id=F.col("transactional_id"),
        state=F.col("state"),
        state_before=F.col("before.state"),
        producer_id=F.col("producer_id"),
        epoch=F.col("epoch"),
        record=state(),
        record_before=state("before."),
        partitions=F.transform("tps", lambda tp: F.struct(tp.alias("tp"))),
    )


def _follows(before: str | None, after: str | None) -> Column:
    """Whether one state may follow another; null where one of them is not there."""

    def of(row: str | None, column: str) -> Column:
        return F.col(f"{row}.{column}" if row else column)

    step = F.concat(of(before, "state"), F.lit(">"), of(after, "state"))
    raised = step.isin(RAISED) & (of(after, "epoch") > of(before, "epoch"))
    return (of(before, "state") == "Tombstone") | step.isin(FOLLOWS) | F.coalesce(raised, F.lit(False))
