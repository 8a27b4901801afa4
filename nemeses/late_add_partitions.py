"""late-add-partitions: hold an AddPartitionsToTxn request until its transaction is over.

The client's retry adds the partitions. The old request arrives after the transaction has ended, and begins a
transaction that nobody ends. The coordinator aborts it after its time-out and raises the epoch of the producer, so the
producer is fenced though it has no rival. The Java client sends no such request with transaction.version 2.
"""

from harness.protocol.rules import Action, ProtocolRule, Release, Selector
from nemeses.effects.rules import protocol_fault


def _make_rule(api: str, error: str) -> ProtocolRule:
    release = Release(after=(Selector("EndTxn", "response"),))
    return ProtocolRule("", Selector(api), Action.HOLD, times=3, release=release)


NEMESIS = protocol_fault(
    "late-add-partitions",
    ("deliver an AddPartitionsToTxn request after its transaction", "arrived late"),
    _make_rule,
    api="AddPartitionsToTxn",
    aimable=False,
)
