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

from collections.abc import Mapping
from typing import Any

from checkers.findings.build import state
from checkers.findings.rules import Rule
from checkers.findings.wording import AnomalyWording
from harness.results.example import Example, describe_place
from harness.results.wording import join_words, printable

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
    at = describe_place(e.inner("record"))
    waits = _partitions(e.body.get("partitions"))
    return f"{e.transactional_id} was still {printable(e.rest.get('state'), 40)} ({at}) at the end" + (
        f", with {waits} to be marked" if waits else ""
    )


def _partitions(value: Any) -> str:
    there = (
        [describe_place(one) for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []
    )
    return join_words(there) if there else ""


WORDING = {
    "stuck-completion": AnomalyWording(
        "transaction was decided and never finished",
        "transactions were decided and never finished",
        "The coordinator had decided to commit or to abort, and has not finished it after everything came "
        "to rest: nobody can use this transactional id.",
        _sentence,
    ),
}
