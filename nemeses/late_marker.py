"""late-marker: hold a WriteTxnMarkers request between brokers, and deliver it a second after the coordinator's retry.

The retry writes the markers, and the producer goes on. The old request arrives while the next transaction may have
records in the same partition. Kafka must not end that transaction.
"""

from harness.protocol.rules import Action, ProtocolRule, Release, Selector
from nemeses.effects.rules import protocol_fault


def _make_rule(api: str, error: str) -> ProtocolRule:
    return ProtocolRule("", Selector(api), Action.HOLD, times=5, release=Release(after_s=1.0))


NEMESIS = protocol_fault(
    "late-marker",
    ("deliver a WriteTxnMarkers request of a coordinator a second late, after its retry", "arrived late"),
    _make_rule,
    api="WriteTxnMarkers",
    aimable=False,
    kind="peer:",
)
