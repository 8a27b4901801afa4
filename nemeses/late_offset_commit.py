"""late-offset-commit: hold a TxnOffsetCommit request until the next transaction has committed newer offsets.

The client's retry commits the offsets in the first transaction. The old request arrives just before the next
transaction ends, behind its newer offsets, and so the group goes back. Clients that use transaction.version 2 (KIP-890)
are protected by a new epoch for each transaction.
"""

from harness.protocol.rules import Action, ProtocolRule, Release, Selector
from nemeses.effects.rules import protocol_fault


def _make_rule(api: str, error: str) -> ProtocolRule:
    after = (Selector("EndTxn", "response"), Selector("TxnOffsetCommit", "response"), Selector("EndTxn"))
    return ProtocolRule("", Selector(api), Action.HOLD, times=3, release=Release(after=after))


NEMESIS = protocol_fault(
    "late-offset-commit",
    ("deliver a TxnOffsetCommit request in the next transaction, behind its newer offsets", "arrived late"),
    _make_rule,
    api="TxnOffsetCommit",
    aimable=False,
)
