"""late-add-partitions: hold an AddPartitionsToTxn request until a second after the end of its transaction.

The client's retry adds the partitions. If the producer is idle when the old request arrives, the request begins a
transaction that no client ends. The coordinator aborts it after its time-out and raises the epoch of the producer, so
the producer is fenced though it has no rival. A request that arrived earlier would be refused: until the markers are
written, the coordinator answers CONCURRENT_TRANSACTIONS. The Java client sends no such request with
transaction.version 2.
"""

from harness.protocol.rules import Action, ProtocolRule, Release, Selector
from nemeses.effects.rules import protocol_fault

COMPLETION_S = 1.0


def _make_rule(api: str, error: str) -> ProtocolRule:
    release = Release(after=(Selector("EndTxn", "response"),), after_s=COMPLETION_S)
    return ProtocolRule("", Selector(api), Action.HOLD, times=3, release=release)


NEMESIS = protocol_fault(
    "late-add-partitions",
    ("deliver an AddPartitionsToTxn request after its transaction", "arrived late"),
    _make_rule,
    api="AddPartitionsToTxn",
    aimable=False,
)
