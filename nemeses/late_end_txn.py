"""late-end-txn: hold the EndTxn of an aborted transaction until the next transaction of the producer has its outputs.

The request outlives its connection: the client's retry ends the transaction, and the next one begins. Then the old
request arrives, and Kafka takes it for the end of the new transaction (KAFKA-17754). Its outputs are aborted, but its
offsets are committed afterwards. Clients that use transaction.version 2 (KIP-890) are protected by a new epoch for each
transaction. librdkafka is not.

Transactions abort rarely, so the fault makes some abort: it answers a TxnOffsetCommit with ILLEGAL_GENERATION, as after
a rebalance.
"""

from dataclasses import replace

from harness.protocol.rules import Action, ProtocolRule, Release, Selector
from nemeses.effects.rules import protocol_fault

TIMES = 3
HOLD_S = 10.0
"""On a busy machine, the next transaction sends its outputs only after seconds."""
_ABORTING = ProtocolRule(
    "abort-for-late-end-txn",
    Selector("TxnOffsetCommit"),
    Action.ERROR,
    times=TIMES,
    error="ILLEGAL_GENERATION",
)


def _make_rule(api: str, error: str) -> ProtocolRule:
    # With transaction.version 2, the Java client sends no AddOffsetsToTxn.
    release = Release(after=(Selector("EndTxn", "response"), Selector("AddOffsetsToTxn|TxnOffsetCommit")))
    return ProtocolRule(
        "", Selector(api, fields={"Committed": False}), Action.HOLD, times=TIMES, release=release
    )


_FAULT = protocol_fault(
    "late-end-txn",
    (
        "deliver an EndTxn request after its transaction, while the next one is open (KAFKA-17754)",
        "arrived late",
    ),
    _make_rule,
    api="EndTxn",
    aimable=False,
    helpers=[_ABORTING],
)
NEMESIS = replace(_FAULT, hold_s=HOLD_S)
