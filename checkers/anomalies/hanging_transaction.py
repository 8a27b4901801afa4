"""Hanging transaction: a transaction that nobody will ever end.

After quiescence a record is open (its producer has no marker above it), and the transaction log does
not list its partition as under way, or has listed it for longer than its time-out, the clean-up
interval and a margin.

Illegal because the last stable offset stays behind it for ever: read-committed consumers never get what
other producers have committed above it.
Evidence: the leader's log, and the last word of the transaction log on that producer id. A run that was
cut short, or of which `__transaction_state` is not whole, is not judged.

    log of x: record of producer 7 at offset 4, no marker above it
    transaction log: producer 7 Ongoing [x]
    transaction log: producer 7 CompleteAbort            <- hanging-transaction

Blind spot: it says that it hangs, not who made it so.
Reference: KAFKA-14402, KIP-890; KIP-664.
"""

from checkers.findings.build import record_place
from checkers.findings.rules import Rule
from checkers.findings.wording import AnomalyWording
from harness.results.example import Example
from harness.results.wording import printable

RULES = (
    Rule(
        "hanging-transaction",
        "batches",
        where="abandoned and coalesce(base_offset < high_watermark, true)",
        order=["tp", "base_offset"],
        detail={
            "record": record_place("tp", "base_offset"),
            "last_offset": "last_offset",
            "producer_id": "producer_id",
            "epoch": "epoch",
            "transactional_id": "state.transactional_id",
            "last_state": "state.state",
        },
    ),
)
"""One finding for each open batch."""


def _sentence(e: Example) -> str:
    record, rest = e.first_record(), e.rest
    producer = printable(rest.get("producer_id", record.get("producer_id")))
    who = f"producer {producer}, epoch {printable(rest.get('epoch', record.get('epoch')))}"
    if rest.get("transactional_id") is not None:
        who = f"{printable(rest['transactional_id'], 60)} ({who})"
    return f"{e.record}, written by {who}, is still open, and readers of its partition stop before it"


WORDING = {
    "hanging-transaction": AnomalyWording(
        "batch of records was left open for ever",
        "batches of records were left open for ever",
        "A record is still open after everything has come to rest: readers of its partition stop there.",
        _sentence,
    ),
}
