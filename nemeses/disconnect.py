"""disconnect: close a client's connection right after its request was delivered.

The request is carried out, and the client must find out on a new connection. By default this happens at EndTxn; choose
another request with `disconnect@API`.
"""

from harness.protocol.rules import Action, ProtocolRule, Selector, When
from nemeses.effects.rules import protocol_fault


def _make_rule(api: str, error: str) -> ProtocolRule:
    return ProtocolRule("", Selector(api), Action.CLOSE, times=5, when=When.AFTER)


NEMESIS = protocol_fault(
    "disconnect",
    ("close a client's connection after its request was delivered; EndTxn, or @API", "lost their connection"),
    _make_rule,
    api="EndTxn",
)
