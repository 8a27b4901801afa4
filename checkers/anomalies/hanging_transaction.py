"""Hanging transaction: a transaction that will never end.

A record is open after quiescence: the log has no marker of its producer above it. And the transaction log does not list
its partition in a pending transaction (Ongoing, PrepareCommit or PrepareAbort). Or it has listed it as Ongoing for too
long: for longer than the transaction time-out, the clean-up interval and a margin.

Illegal because the last stable offset stays before the record for ever. Read-committed consumers never receive what
other producers have committed above it.
Evidence: the leader's log, and the last state of that producer id in the transaction log. A run is not checked if it
was cut short or if it has no whole log of `__transaction_state`.

    log of x: record of producer 7 at offset 4, no marker above it
    transaction log: producer 7 Ongoing [x]
    transaction log: producer 7 CompleteAbort            <- hanging-transaction

Blind spot: the finding does not say who left the transaction open.
Reference: KAFKA-14402, KIP-890; KIP-664.
"""

from checkers.findings import AnomalyWording, Rule, record_position
from harness.common.wording import printable
from harness.results.example import Example

RULES = (
    Rule(
        "hanging-transaction",
        "batches",
        where="abandoned and coalesce(base_offset < high_watermark, true)",
        order=["tp", "base_offset"],
        detail={
            "record": record_position("tp", "base_offset"),
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
    record, rest = e.first_record, e.rest
    producer = printable(rest.get("producer_id", record.get("producer_id")))
    who = f"producer {producer}, epoch {printable(rest.get('epoch', record.get('epoch')))}"
    if rest.get("transactional_id") is not None:
        who = f"{printable(rest['transactional_id'], 60)} ({who})"
    effect = "read-committed consumers stop before it"
    if record.get("topic") == "__consumer_offsets":
        effect = "OffsetFetch answers UNSTABLE_OFFSET_COMMIT for its partitions"
    return f"{e.record}, written by {who}, is still open, and {effect}"


WORDING = {
    "hanging-transaction": AnomalyWording(
        "batch of records was left open for ever",
        "batches of records were left open for ever",
        "A record is still open after the run has ended and no time-out will abort it. Read-committed consumers of its "
        "partition stop there.",
        _sentence,
    ),
}
