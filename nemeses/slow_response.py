"""slow-response: deliver a broker's responses a second late, in order.

By default these are the responses to EndTxn; choose another with `slow-response@API`.
"""

from harness.protocol.rules import Action, ProtocolRule, Release, Selector
from nemeses.effects.rules import protocol_fault


def _make_rule(api: str, error: str) -> ProtocolRule:
    return ProtocolRule("", Selector(api, "response"), Action.DELAY, times=None, release=Release(after_s=1.0))


NEMESIS = protocol_fault(
    "slow-response",
    ("delay a broker's responses by a second; EndTxn, or @API", "were delayed"),
    _make_rule,
    api="EndTxn",
)
