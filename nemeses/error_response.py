"""error-response: answer a request with an error, without delivering it.

By default EndTxn gets COORDINATOR_LOAD_IN_PROGRESS; choose others with `error-response@API:ERROR`. A rule of your own
can also answer with an error after the request was carried out (`--rule ...,when=after`).
"""

from harness.protocol.rules import Action, ProtocolRule, Selector
from nemeses.effects.rules import protocol_fault


def _make_rule(api: str, error: str) -> ProtocolRule:
    return ProtocolRule("", Selector(api), Action.ERROR, times=5, error=error)


NEMESIS = protocol_fault(
    "error-response",
    ("answer a request with an error instead of delivering it; @API:ERROR", "were answered with an error"),
    _make_rule,
    api="EndTxn",
    error="COORDINATOR_LOAD_IN_PROGRESS",
)
