"""Faults that are rules of the protocol proxy.

A fault of this kind is its docstring, a function that makes the rule, and a call of `protocol_fault`.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from random import Random
from threading import Event

from msgspec import structs

from harness.cluster import Ability
from harness.common.errors import FaultFailed
from harness.network import ActiveEffect, ApplyRule
from harness.network.ruled import RuleInForce
from harness.protocol.rules import ProtocolRule
from harness.protocol.state import HeldRequest
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

LINKS = {"client": "client:w", "peer": "peer:"}
"""By kind, the prefix of the names of the links on which a rule acts. It never acts on the feeder and the readers."""
HOLD_S = 6.0
"""How long a rule is in force."""
EVERY_S = 0.002
"""A completed state lasts only until the producer begins its next transaction, which may be milliseconds."""
IDLE_S = 0.02
"""How often to look for a request while none is kept."""
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


@contextmanager
def releasing_by_state(context: FaultContext, rule: RuleInForce) -> Iterator[None]:
    """Release what the rule keeps when the transaction log shows a state, for the length of a `with`.

    The protocol proxy cannot read the log. So a thread of the run asks the coordinator for the states of the
    transactions whose requests are kept, and tells the proxy which to deliver.

    At the end, the requests whose state was not seen are delivered, and the evidence has the last state that was seen.
    Raises `FaultFailed` if the proxy does not answer.
    """
    healed = Event()
    with ThreadPoolExecutor(1) as pool:
        watching = pool.submit(_watch, context, rule, healed)
        try:
            yield
        finally:
            healed.set()
        watching.result()


def _watch(context: FaultContext, rule: RuleInForce, healed: Event) -> None:
    states = rule.rule.release.states
    seen: Counter[int] = Counter()  # by request: how many of the states were seen
    last: dict[int, str] = {}
    requests: Sequence[HeldRequest] = ()
    while not healed.wait(context.scaled(EVERY_S if requests else IDLE_S)):
        requests = rule.status.await_states
        for request in requests:
            view = context.cluster.describe_transaction(request.transactional_id)
            last[request.number] = str(view) if view is not None else "not known"
            if view is None or view.state != states[seen[request.number]]:
                continue
            seen[request.number] += 1
            if seen[request.number] == len(states):
                rule.release(request.number, f"when its transaction was {view}")
    for request in rule.status.await_states:
        awaited = states[seen[request.number]]
        rule.release(
            request.number,
            f"at the heal, because its transaction was not seen in {awaited}: it was last "
            f"{last.get(request.number, 'not known')}",
            in_time=False,
        )
