"""Faults on links: an effect and a shape, which are independent of each other.

A fault of this kind is its docstring, an effect of `harness.network`, and a call of `link_fault`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from harness.network import LinkEffect
from harness.runner.nemesis import FaultContext, InjectedFault, Nemesis, PlannedFault, RoleChoice
from nemeses.aiming.shapes import SHAPE_ROLES, SeparatedLinks, any_shape, separate, uses_links
from nemeses.effects.brokers import IN_SYNC_TIMEOUT_S
from nemeses.effects.link_proof import prove_on_links

HOLD_S = 10.0
RECOVERY_S = 5.0


def link_fault(
    name: str,
    words: tuple[str, str, str],
    kind: type[LinkEffect],
    make_effect: Callable[[PlannedFault, SeparatedLinks], LinkEffect],
    subject: Callable[[PlannedFault, SeparatedLinks], str],
    *,
    parameters: Mapping[str, range | Sequence[str]] | None = None,
    roles: Mapping[str, RoleChoice] = SHAPE_ROLES,
    halts: bool = False,
) -> Nemesis:
    """Return a fault that imposes an effect on the links of a shape. It is never drawn unless it is named.

    Args:
        name: The name of the fault.
        words: Its summary, what completes a sentence about its subject, and what its evidence proves.
        kind: The kind of the effect.
        make_effect: Makes the effect from the parameters of the fault and the links.
        subject: Describes the links in words: "the links between broker 1 and its peers".
        parameters: The values that its parameters can have.
        roles: The shapes that the user can choose.
        halts: Whether the pipeline can commit nothing until the heal.
    """

    @contextmanager
    def inject(context: FaultContext, planned: PlannedFault) -> Iterator[InjectedFault]:
        separated = separate(context, planned.target)
        effect = InjectedFault(target=subject(planned, separated))
        with on_links(context, separated, make_effect(planned, separated), effect):
            yield effect

    summary, past_tense, proves = words
    return Nemesis(
        name=name,
        summary=summary,
        past_tense=past_tense,
        proves=proves,
        needs=frozenset({kind}),
        occupies=uses_links,
        hold_s=HOLD_S,
        recovery_s=RECOVERY_S,
        draw=any_shape,
        roles=roles,
        parameters=parameters or {},
        inject=inject,
        halts=halts,
        by_default=False,
    )


@contextmanager
def on_links(
    context: FaultContext, separated: SeparatedLinks, network_effect: LinkEffect, effect: InjectedFault
) -> Iterator[None]:
    """Impose a network effect until the end of the `with`, and prove that it acts.

    Then wait until all replicas are in sync. Raises `FaultFailed`, `WaitTimeout`.
    """
    effect.details |= separated.details
    effect.mark_injected()
    with context.cluster.network.impose(separated.links, network_effect) as active:
        yield
        prove_on_links(context, effect, active)
    context.cluster.await_in_sync(IN_SYNC_TIMEOUT_S, context.topics)


def between(noun: str) -> Callable[[PlannedFault, SeparatedLinks], str]:
    """Return a function that describes links: "the NOUN between broker 1 and its peers"."""
    return lambda planned, separated: f"the {noun} between {separated.side} and {separated.other}"
