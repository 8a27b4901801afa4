"""swap-requests: let two requests of the same kind change places.

A request waits until the next of its kind has passed. The two may be on different connections. By default these are
Produce requests; choose another with `swap-requests@API`.
"""

from harness.protocol.rules import Action, ProtocolRule, Release, Selector
from nemeses.effects.rules import protocol_fault


def _make_rule(api: str, error: str) -> ProtocolRule:
    return ProtocolRule("", Selector(api), Action.SWAP, times=10, release=Release(after_s=2.0))


NEMESIS = protocol_fault(
    "swap-requests",
    ("let two requests of one kind change places; Produce, or @API", "changed places"),
    _make_rule,
    api="Produce",
)
