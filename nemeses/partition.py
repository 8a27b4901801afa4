"""partition: cut a broker off from its peers, or a client from a broker. Bytes in flight are lost.

Existing connections carry no more bytes in either direction. New connections are accepted, but carry no bytes. Bytes
are lost, not delayed: a delay would be another fault, because a request that arrives late makes transactions wrong by
itself (KAFKA-17754).
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from random import Random

from harness.cluster import Ability
from harness.common.errors import FaultFailed
from harness.network import Cut
from harness.network.links import client_link, links_around, links_between
from harness.runner.nemesis import (
    DrawnFault,
    FaultContext,
    FaultTargets,
    InjectedFault,
    Nemesis,
    PlannedFault,
    Target,
)
from harness.runner.occupied import uses_brokers
from nemeses.aiming.targets import broker_in_use, choose, worker_at_endpoint
from nemeses.effects.cuts import prove_cut

IN_SYNC_TIMEOUT_S = 60.0


def draw(rng: Random, targets: FaultTargets) -> DrawnFault:
    """Draw a cut: a broker from all its peers, two brokers from each other, or a worker from a broker."""
    peers = len(targets.brokers) > 1 and Ability.PEER_LINKS in targets.abilities
    peer_cuts = ("isolate", "pair") if peers else ()
    kinds = (*peer_cuts, *(("client",) if targets.endpoints else ()))
    kind = choose(rng, kinds, "a second broker, or a pipeline whose workers run on this machine")
    broker, *peer = rng.sample(targets.brokers, min(2, len(targets.brokers)))
    if kind == "isolate":
        return DrawnFault(Target(kind, str(broker)))
    if kind == "pair":
        return DrawnFault(Target(kind, f"{min(broker, *peer)}-{max(broker, *peer)}"))
    return DrawnFault(Target(kind, f"{rng.choice(targets.endpoints)}-{broker}"))


@contextmanager
def partition(context: FaultContext, planned: PlannedFault) -> Iterator[InjectedFault]:
    """Cut the links. The fault acted if bytes sent into a link were lost, while the receiver answered others."""
    links, side, other_side = _links(context, planned.target)
    effect = InjectedFault(target=f"{side} from {other_side}", short_target=side, other=other_side)
    effect.mark_injected()
    with context.cluster.network.impose(links, Cut()) as cut:
        yield effect
        prove_cut(context, effect, cut)
    context.cluster.await_in_sync(IN_SYNC_TIMEOUT_S, context.topics)


def _links(context: FaultContext, target: Target) -> tuple[Sequence[str], str, str]:
    """Return the links to cut, and the two sides in words.

    Some links between two brokers do not exist, because only some brokers are controllers. They are left out.
    """
    existing = set(context.cluster.network.links)
    first, _, second = target.name.rpartition("-")
    if target.role == "isolate":
        brokers = [broker.id for broker in context.cluster.brokers]
        links = [link for link in links_around(int(target.name), brokers) if link in existing]
        return links, f"broker {target.name}", "its peers"
    if target.role == "pair":
        links = [link for link in links_between(int(first), int(second)) if link in existing]
        return links, f"broker {first}", f"broker {second}"
    if target.role == "client":
        member = worker_at_endpoint(context.processes, first)
        broker = broker_in_use(context, member.endpoint, int(second))
        return [client_link(member.endpoint, broker)], f"worker {member.journal}", f"broker {broker}"
    raise FaultFailed(f"there is no cut of the kind {target.role} (target {target})")


NEMESIS = Nemesis(
    name="partition",
    summary="cut a broker from its peers, or a client from a broker, losing what is in flight",
    past_tense="was cut off",
    proves="bytes that were sent into a link were lost, while the receiver answered others",
    needs=frozenset({Cut}),
    occupies=uses_brokers,
    hold_s=10.0,
    recovery_s=5.0,
    draw=draw,
    inject=partition,
)
