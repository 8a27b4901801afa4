"""The evidence of a rule: what the protocol proxy knows that it did."""

from collections.abc import Iterable
from pathlib import Path

import pytest
from msgspec import structs

from harness.common.errors import FaultFailed
from harness.network import ApplyRule
from harness.network.ruled import MAX_WORDS, apply_rule
from harness.protocol.rules import Action, ProtocolRule, Selector
from harness.protocol.state import ReleaseOrder, RuleStatus

RULE = ProtocolRule("late", Selector("EndTxn"), Action.HOLD)


class Proxy:
    """A protocol proxy in which a rule has this status."""

    problem = ""
    journal = Path(__file__)

    def __init__(self, status: RuleStatus) -> None:
        self._status = status
        self.rules: list[ProtocolRule] = []

    def add(self, rule: ProtocolRule) -> RuleStatus:
        self.rules.append(rule)
        return self._status

    def status(self, rule: str) -> RuleStatus:
        return self._status

    def release(self, order: ReleaseOrder) -> RuleStatus:
        return self._status

    def remove(self, rule: str) -> RuleStatus:
        return structs.replace(self._status, kept=0)

    def observed_clients(self, links: Iterable[str]) -> None:
        return None


@pytest.mark.parametrize(
    ("status", "evidence", "missing"),
    [
        (RuleStatus(), "", "the rule acted on none of the EndTxn requests: none was seen"),
        (RuleStatus(matched=2), "", "the rule acted on none of the EndTxn requests: 2 passed"),
        (
            RuleStatus(seen=1),
            "",
            "the rule acted on none of the EndTxn requests: 1 EndTxn request passed, and the rule selects none of them",
        ),
        (
            RuleStatus(seen_before=6),
            "",
            (
                "the rule acted on none of the EndTxn requests: none was seen; "
                "6 EndTxn requests came before the rule was in force"
            ),
        ),
        (RuleStatus(1, 1, 0, 0, ("held", "lost")), "", "no effect of the rule is proved: held; lost"),
        (RuleStatus(1, 1, 1, 0, ("held", "answered")), "held; answered", ""),
        (
            RuleStatus(1, 1, 0, 0, ("held", "at the heal", "answered"), missed=1),
            "",
            "its release never came: at the heal; answered",
        ),
        (
            RuleStatus(3, 3, 2, 0, ("held", "answered"), missed=1),
            "held; answered; 1 of the 3 were delivered although their release had not come",
            "",
        ),
    ],
)
def test_only_what_is_proved_is_evidence(status: RuleStatus, evidence: str, missing: str) -> None:
    proxy = Proxy(status)
    with apply_rule(proxy, ["client:w0->1"], ApplyRule(RULE)) as in_force:
        pass
    assert (in_force.evidence(), in_force.missing_proof) == (evidence, missing)
    assert proxy.rules[0].links == ("client:w0->1",)


def test_a_proxy_that_does_not_tell_the_status_is_still_asked_to_remove_the_rule() -> None:
    class Slow(Proxy):
        def status(self, rule: str) -> RuleStatus:
            raise FaultFailed("the protocol proxy does not answer: timed out")

    proxy = Slow(RuleStatus(1, 1, 1, 0, ("held", "answered")))
    with apply_rule(proxy, ["a"], ApplyRule(RULE)) as in_force:
        pass
    assert in_force.evidence() == "held; answered"


def test_long_evidence_is_cut_and_says_so() -> None:
    words = tuple(f"response {number} was delayed" for number in range(MAX_WORDS + 5))
    with apply_rule(Proxy(RuleStatus(17, 17, 17, 0, words)), ["a"], ApplyRule(RULE)) as in_force:
        assert in_force.evidence().endswith("; 5 more in the journal of the proxy")


def test_a_run_without_a_protocol_proxy_cannot_apply_a_rule() -> None:
    with pytest.raises(FaultFailed, match="no protocol proxy"), apply_rule(None, ["a"], ApplyRule(RULE)):
        pass
