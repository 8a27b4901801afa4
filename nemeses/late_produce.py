"""late-produce: hold a producer's records until its transaction has ended without them.

All Produce requests of the transactional id are held, retries included, until the client has given up and has ended the
transaction. Then they arrive behind the marker. A broker that verifies transactions (KIP-890) refuses them. Without the
verification they hang: no marker ever follows, and the last stable offset stands still (KAFKA-14402).
"""

from dataclasses import replace

from harness.protocol.rules import Action, ClientConnection, ProtocolRule, Release, Selector
from nemeses.effects.rules import protocol_fault


def _make_rule(api: str, error: str) -> ProtocolRule:
    return ProtocolRule(
        "",
        Selector(api, transactional_id="*"),
        Action.HOLD,
        times=None,
        release=Release(after=(Selector("EndTxn", "response"),)),
        holds_retries=True,
        client=ClientConnection.STALL,
    )


NEMESIS = replace(
    protocol_fault(
        "late-produce",
        ("deliver records behind the marker of their transaction (KAFKA-14402)", "arrived late"),
        _make_rule,
        api="Produce",
        aimable=False,
    ),
    halts=True,
)
