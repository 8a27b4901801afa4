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

from checkers.findings.build import state
from checkers.findings.rules import Rule
from checkers.findings.wording import AnomalyWording
from harness.results.example import Example, describe_place
from harness.results.wording import printable

RESTING = ("Empty", "CompleteCommit", "CompleteAbort")
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
FOLLOWS = tuple(f"{before}>{after}" for after, previous in PREVIOUS.items() for before in previous)
RAISED = tuple(f"{before}>PrepareAbort" for before in RESTING)
"""What may follow if its epoch is higher."""


def _follows(before: str, after: str) -> str:
    """Whether one state may follow another; null where one of them is not there."""
    step = f"concat({before}state, '>', {after}state)"
    raised = f"coalesce({step} in {RAISED} and {after}epoch > {before}epoch, false)"
    return f"({before}state = 'Tombstone' or {step} in {FOLLOWS} or {raised})"


def _explained() -> str:
    """A state follows the one before it; or it, and those since, follow one of the two before that."""
    chain = ["before_3.", "before_2.", "before.", ""]
    return " or ".join(
        "coalesce(" + " and ".join(_follows(chain[at], after) for after in chain[at + 1 :]) + ", false)"
        for at in (2, 1, 0)
    )


RULES = (
    Rule(
        "transaction-state-violation",
        "states",
        where=f"before is not null and not ({_explained()})",
        order=["log_tp", "log_offset"],
        detail={
            "transactional_id": "transactional_id",
            "state": "state",
            "state_before": "before.state",
            "producer_id": "producer_id",
            "epoch": "epoch",
            "record": state(),
            "record_before": state("before."),
            "partitions": "transform(tps, p -> struct(p as tp))",
        },
    ),
)
"""One finding for each state that may not follow."""


def _sentence(e: Example) -> str:
    state, before = printable(e.rest.get("state"), 40), printable(e.rest.get("state_before"), 40)
    at = describe_place(e.inner("record"))
    return f"{e.transactional_id} went from {before} to {state} ({at}), which may not follow it"


WORDING = {
    "transaction-state-violation": AnomalyWording(
        "step of a transaction coordinator is not allowed",
        "steps of transaction coordinators are not allowed",
        "The transaction log shows a state that may not follow the one before it.",
        _sentence,
    ),
}
