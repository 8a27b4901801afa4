"""Faults on links: an effect and a shape, which are independent of each other. `LinkFault` is one as data."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from harness.common.errors import WaitTimeout
from harness.network import ActiveEffect, LinkEffect
from harness.runner.nemesis import FaultContext, InjectedFault, Nemesis, PlannedFault, RoleChoice
from nemeses.aiming.shapes import SHAPE_ROLES, SeparatedLinks, any_shape, separate, uses_links
from nemeses.effects.brokers import IN_SYNC_TIMEOUT_S

GOAL = "link-in-use"
USED_TIMEOUT_S = 10.0
"""How long the heal waits for a process to meet the effect. It is longer than two heartbeats."""


@dataclass(frozen=True, kw_only=True)
class LinkFault:
    """A fault that imposes an effect on the links of a shape. Fields without a comment are those of `Nemesis`."""

    name: str
    summary: str
    past_tense: str
    proves: str
    effect: type[LinkEffect]  # the kind of the effect
    # Names the target of the fault in words, such as "the links between broker 1 and its peers".
    subject: Callable[[PlannedFault, SeparatedLinks], InjectedFault]
    # Makes the effect. None: the parameters of the fault are whole numbers, and they are the fields of the effect.
    make: Callable[[PlannedFault, SeparatedLinks], LinkEffect] | None = None
    parameters: Mapping[str, range | Sequence[str]] = field(default_factory=dict)
    roles: Mapping[str, RoleChoice] = field(default_factory=lambda: SHAPE_ROLES)  # the shapes
    hold_s: float = 10.0
    recovery_s: float = 5.0
    halts: bool = False
    by_default: bool = False
    sources: tuple[str, ...] = ()

    @contextmanager
    def inject(self, context: FaultContext, planned: PlannedFault) -> Iterator[InjectedFault]:
        """Impose the effect, and prove it before the heal. Then wait until all replicas are in sync."""
        separated = separate(context, planned.target)
        fault = self.subject(planned, separated)
        fault.details |= separated.details
        network_effect = (self.make or self._from_parameters)(planned, separated)
        fault.mark_injected()
        with context.cluster.network.impose(separated.links, network_effect) as active:
            yield fault
            prove_on_links(context, fault, active)
        context.cluster.await_in_sync(IN_SYNC_TIMEOUT_S, context.topics)

    def _from_parameters(self, planned: PlannedFault, separated: SeparatedLinks) -> LinkEffect:
        return self.effect(**{name: int(planned.parameters[name]) for name in self.parameters})

    def nemesis(self) -> Nemesis:
        """Return the fault."""
        return Nemesis(
            name=self.name,
            summary=self.summary,
            past_tense=self.past_tense,
            proves=self.proves,
            needs=frozenset({self.effect}),
            occupies=uses_links,
            hold_s=self.hold_s,
            recovery_s=self.recovery_s,
            draw=any_shape,
            roles=self.roles,
            parameters=self.parameters,
            inject=self.inject,
            halts=self.halts,
            by_default=self.by_default,
            sources=self.sources,
        )


def between(noun: str) -> Callable[[PlannedFault, SeparatedLinks], InjectedFault]:
    """Return a function that names links: "the NOUN between broker 1 and its peers"."""
    return lambda planned, separated: InjectedFault(
        target=f"the {noun} between {separated.side} and {separated.other}"
    )


def prove_on_links(context: FaultContext, effect: InjectedFault, active: ActiveEffect) -> None:
    """Add to the fault the proof that its effect on links acts: a broker or a client has met it.

    Call it before the heal. Wait up to `USED_TIMEOUT_S` until a process meets the effect. If none does, the fault has
    an unmet goal.
    """
    try:
        awaited = "the pipeline to meet the effect on the links"
        evidence = context.wait_for(
            active.evidence, awaited, USED_TIMEOUT_S, every_s=0.2, last_seen=lambda: active.missing_proof
        )
    except WaitTimeout as error:
        effect.unmet_goals[GOAL] = str(error)
    else:
        effect.add_proof(evidence)
