"""Transaction state violation: a coordinator went from one state to a state that may not follow it.

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

The first state of a transactional id in the log is not checked. Neither is the first one after the id was forgotten (a
tombstone). A state that equals the one before it is a second attempt to write it. The log may also hold a state that
never took effect: if its replicas do not confirm it in time, the coordinator continues from the state before it. So a
state may follow the state directly before it. It may also follow one of the two states before that, if each state in
between may follow that state too. Any other state is a finding.

Illegal because a transaction that was not prepared cannot be complete, and a prepared transaction is decided.
Evidence: the order of the states in the leader's log of `__transaction_state`.

    transaction log: id Ongoing [x]
    transaction log: id PrepareCommit [x]
    transaction log: id CompleteAbort                <- transaction-state-violation

Blind spot: a step that the coordinator did not write, and a wrong step that looks like an unconfirmed one.
Reference: Kafka 4.3, `TransactionState`: the valid previous states; KIP-890 for PrepareAbort with a higher epoch. A
client causes it if it does not know that no transaction was begun.
"""

from checkers.findings import AnomalyWording, Rule, state
from harness.common.wording import printable
from harness.results.example import Example

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
"""For each state, the states that it may follow."""
FOLLOWS = tuple(f"{before}>{after}" for after, previous in PREVIOUS.items() for before in previous)
RAISED = tuple(f"{before}>PrepareAbort" for before in RESTING)
"""The steps that are valid only to a higher epoch."""


def _follows(before: str, after: str) -> str:
    """Return SQL that is true if one state may follow another one. It is null if one of them does not exist."""
    step = f"concat({before}state, '>', {after}state)"
    raised = f"coalesce({step} in {RAISED} and {after}epoch > {before}epoch, false)"
    return f"({before}state = 'Tombstone' or {step} in {FOLLOWS} or {raised})"


def _valid_step() -> str:
    """Return SQL that is true for a valid step.

    The state follows the one before it. Or it and the states since then each follow one of the two states before that.
    """
    chain = ["before_3.", "before_2.", "before.", ""]
    return " or ".join(
        "coalesce(" + " and ".join(_follows(chain[index], after) for after in chain[index + 1 :]) + ", false)"
        for index in (2, 1, 0)
    )


RULES = (
    Rule(
        "transaction-state-violation",
        "states",
        where=f"before is not null and not ({_valid_step()})",
        order=["log_tp", "log_offset"],
        absence="lacks_records",  # perhaps a state between the two
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
"""One finding for each state that may not follow the one before it."""


def _sentence(e: Example) -> str:
    state, before = printable(e.rest.get("state"), 40), printable(e.rest.get("state_before"), 40)
    at = e.first_record.position
    return f"{e.transactional_id} went from {before} to {state} ({at}), but {state} may not follow {before}"


WORDING = {
    "transaction-state-violation": AnomalyWording(
        "step of a transaction coordinator is not allowed",
        "steps of transaction coordinators are not allowed",
        "The transaction log shows a state that may not follow the one before it.",
        _sentence,
    ),
}
