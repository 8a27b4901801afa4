"""Faults that are rules of the protocol proxy. `ProtocolFault` is one as data."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
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
    context: FaultContext, rule: ProtocolRule, kind: str, helpers: Sequence[ProtocolRule] = ()
) -> Iterator[InjectedFault]:
    """Put a rule in force on all links whose names begin with `kind`.

    The fault acted if the rule had its effect on a message. `helpers` are rules that make clients send the messages of
    `rule`. They alone prove nothing. The proof is taken after the heal, when the brokers have answered the messages
    that the rule kept.
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


@dataclass(frozen=True, kw_only=True)
class ProtocolFault:
    """A fault that puts a rule in force, and has its name. Fields without a comment are those of `Nemesis`."""

    rule: ProtocolRule  # with the API and the error that are used if the user chooses none
    summary: str
    past_tense: str  # completes a sentence about its messages: "were lost"
    api_aim: tuple[str, ...] = ("api",)
    links: str = "client"
    helpers: Sequence[ProtocolRule] = ()  # make clients send the messages on which the fault acts
    hold_s: float = HOLD_S
    halts: bool = False
    sources: tuple[str, ...] = ()

    def draw(self, rng: Random, targets: FaultTargets) -> DrawnFault:
        """Return the API and the error of the rule. Raises `NoTarget`."""
        choose(rng, targets.ids or targets.stages_with_unknown_ids, "a pipeline with a transactional id")
        api, error = self.rule.select.api, self.rule.error
        return DrawnFault(Target("api", api), {"api": api} | ({"error": error} if error else {}))

    def rule_of(self, planned: PlannedFault) -> ProtocolRule:
        """Return the rule with the API and the error of a planned fault."""
        select = structs.replace(self.rule.select, api=str(planned.parameters["api"]))
        return structs.replace(self.rule, select=select, error=str(planned.parameters.get("error", "")))

    @contextmanager
    def inject(self, context: FaultContext, planned: PlannedFault) -> Iterator[InjectedFault]:
        """Put the rule in force."""
        with rule_in_force(context, self.rule_of(planned), LINKS[self.links], self.helpers) as effect:
            yield effect

    def nemesis(self) -> Nemesis:
        """Return the fault."""
        return Nemesis(
            name=self.rule.name,
            summary=self.summary,
            past_tense=self.past_tense,
            proves=PROVES,
            needs=frozenset({ApplyRule, *([Ability.PEER_LINKS] if self.links == "peer" else [])}),
            occupies=lambda planned: frozenset({Resource.MESSAGES}),
            hold_s=self.hold_s,
            recovery_s=1.0,
            draw=self.draw,
            inject=self.inject,
            halts=self.halts,
            by_default=False,
            rule=self.rule_of,
            api_aim=self.api_aim,
            links=self.links,
            sources=self.sources,
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
