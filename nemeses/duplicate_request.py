"""duplicate-request: deliver a request twice, as after a retry whose first copy was only delayed.

The copy follows at once, and its response is dropped. By default an EndTxn is copied; choose another request with
`duplicate-request@API`.
"""

from harness.protocol.rules import Action, ProtocolRule, Release, Selector
from nemeses.effects.rules import protocol_fault


def _make_rule(api: str, error: str) -> ProtocolRule:
    return ProtocolRule("", Selector(api), Action.DUPLICATE, times=5, release=Release(after_s=0.0))


NEMESIS = protocol_fault(
    "duplicate-request",
    ("deliver a request twice; EndTxn, or @API", "were delivered twice"),
    _make_rule,
    api="EndTxn",
)
