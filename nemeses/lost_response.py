"""lost-response: drop a broker's response. The request was carried out, and its client cannot know.

The client's connection is closed, so it retries at once. By default the response to an EndTxn is dropped; choose
another with `lost-response@API`.
"""

from harness.protocol.rules import Action, ProtocolRule, Selector
from nemeses.effects.rules import protocol_fault


def _make_rule(api: str, error: str) -> ProtocolRule:
    return ProtocolRule("", Selector(api, "response"), Action.DROP, times=5)


NEMESIS = protocol_fault(
    "lost-response",
    ("drop the response to a request that was carried out; EndTxn, or @API", "were lost"),
    _make_rule,
    api="EndTxn",
)
