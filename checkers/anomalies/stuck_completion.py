"""Stuck completion: a coordinator decided a transaction and never finished it.

After quiescence, the last state of a transactional id in the transaction log is PrepareCommit or PrepareAbort. It was
written more than 30 s before the run's sentinels. A coordinator looks at its transactions every 10 s, so this is three
times as long.

Illegal because a decided transaction must be completed. Until then its producer, and every later producer with that
transactional id, gets CONCURRENT_TRANSACTIONS.
Evidence: the leader's log of `__transaction_state`, whole to its end, and the time of the sentinels. A run that was cut
short is not checked.

    transaction log: id Ongoing [x]
    transaction log: id PrepareCommit [x]             <- stuck-completion, if nothing follows
    sentinels, 30 s later

Blind spot: a transaction that was decided less than 30 s before the end.
Reference: KIP-98, "transaction coordinator"; KIP-664.
"""

from checkers.findings import AnomalyWording, Rule, state
from harness.common.wording import join_words, printable
from harness.results.example import Example

RULES = (
    Rule(
        "stuck-completion",
        "states",
        where="late",
        order=["log_tp", "log_offset"],
        absence="true",
        detail={
            "transactional_id": "transactional_id",
            "state": "state",
            "producer_id": "producer_id",
            "epoch": "epoch",
            "record": state(),
            "partitions": "transform(tps, p -> struct(p as tp))",
            "update_ms": "update_ms",
        },
    ),
)
"""One finding for each transactional id."""


def _sentence(e: Example) -> str:
    at = e.first_record.position
    partitions = [part.partition for part in e.parts() if part.label == "partition"]
    return (
        f"{e.transactional_id} was still in state {printable(e.rest.get('state'), 40)} ({at}) at the end"
        + (f", and {join_words(partitions)} had no marker yet" if partitions else "")
    )


WORDING = {
    "stuck-completion": AnomalyWording(
        "transaction was decided and never finished",
        "transactions were decided and never finished",
        "The coordinator decided to commit or to abort, and has not finished it by the end of the run. No producer can "
        "use this transactional id.",
        _sentence,
    ),
}
