"""Faults that are rules of the protocol proxy.

A fault of this kind is its docstring, a function that makes the rule, and a call of `protocol_fault`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from random import Random

from msgspec import structs

from harness.cluster import Ability
from harness.common.errors import FaultFailed
from harness.network import ActiveEffect, ApplyRule
from harness.network.ruled import RuleInForce
from harness.protocol.rules import ProtocolRule
from harness.runner.nemesis import (
    DrawnFault,
    FaultContext,
    FaultTargets,
    InjectedFault,
    Nemesis,
    PlannedFault,
    Resource,
    Target,
)
from nemeses.aiming.targets import choose
from nemeses.effects.release_by_state import releasing_by_state

LINKS = {"client": "client:w", "peer": "peer:"}
"""By kind, the prefix of the names of the links on which a rule acts. It never acts on the feeder and the readers."""
HOLD_S = 6.0
"""How long a rule is in force."""
PROVES = (
    "the proxy's journal has the messages on which it acted, and the brokers' responses to those that it kept"
)


@contextmanager
def rule_in_force(
    context: FaultContext, rule: ProtocolRule, kind: str = "client:w", helpers: Sequence[ProtocolRule] = ()
) -> Iterator[InjectedFault]:
    """Put a rule in force on all links of a kind. The fault acted if the rule had its effect on a message.

    `helpers` are rules that make clients send the messages of `rule`. They alone prove nothing.
    The proof is taken after the heal, when the brokers have answered the messages that the rule kept.
    """
    links = [link for link in context.cluster.network.links if link.startswith(kind)]
    if not links:
        raise FaultFailed(f"this cluster has no links {kind}*, so a rule cannot act on them")
    effect = InjectedFault(target=str(rule.select))
    impose = context.cluster.network.impose
    effect.mark_injected()
    with ExitStack() as stack:
        helping = [stack.enter_context(impose(links, ApplyRule(helper))) for helper in helpers]
        in_force = stack.enter_context(impose(links, ApplyRule(rule)))
        name_rules(effect, [in_force, *helping])
        if rule.release.states:
            assert isinstance(in_force, RuleInForce)
            stack.enter_context(releasing_by_state(context, in_force))
        yield effect
    effect.add_proof(in_force.evidence())
    effect.proof += [words for helper in helping if (words := helper.evidence())]
    if not effect.acted:
        effect.unmet_goals["rule"] = in_force.missing_proof


def name_rules(effect: InjectedFault, in_force: Iterable[ActiveEffect]) -> None:
    """Let the fault's report name its rules as the proxy's journal does."""
    if names := [each.rule.name for each in in_force if isinstance(each, RuleInForce)]:
        effect.details["rule"] = ", ".join(names)


def protocol_fault(
    name: str,
    words: tuple[str, str],
    make_rule: Callable[[str, str], ProtocolRule],
    *,
    api: str,
    error: str = "",
    aimable: bool = True,
    kind: str = "client:w",
    helpers: Sequence[ProtocolRule] = (),
) -> Nemesis:
    """Return a fault that puts a rule in force.

    Args:
        name: The name of the fault.
        words: One line that says what it does, and what completes a sentence about its messages: "were lost".
        make_rule: Makes the rule from the name of an API and of an error.
        api: The API if the user chooses none.
        error: The error if the user chooses none. Empty: the fault has none.
        aimable: Whether the user may choose another API, and another error if the fault has one.
        kind: How the names of the links begin on which it acts.
        helpers: Rules that make clients send the messages on which the fault acts.
    """

    def draw(rng: Random, targets: FaultTargets) -> DrawnFault:
        choose(rng, targets.ids or targets.stages_with_unknown_ids, "a pipeline with a transactional id")
        return DrawnFault(Target("api", api), {"api": api} | ({"error": error} if error else {}))

    def rule(planned: PlannedFault) -> ProtocolRule:
        made = make_rule(str(planned.parameters["api"]), str(planned.parameters.get("error", "")))
        return structs.replace(made, name=name)

    @contextmanager
    def inject(context: FaultContext, planned: PlannedFault) -> Iterator[InjectedFault]:
        with rule_in_force(context, rule(planned), kind, helpers) as effect:
            yield effect

    return Nemesis(
        name=name,
        summary=words[0],
        past_tense=words[1],
        proves=PROVES,
        needs=frozenset({ApplyRule, *([Ability.PEER_LINKS] if kind.startswith("peer") else [])}),
        occupies=lambda planned: frozenset({Resource.MESSAGES}),
        hold_s=HOLD_S,
        recovery_s=1.0,
        draw=draw,
        inject=inject,
        by_default=False,
        rule=rule,
        api_aim=("api", "error") if error else ("api",) if aimable else (),
        links=kind.partition(":")[0],
    )
