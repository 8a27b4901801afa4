"""partition: cut a broker off from its peers, or a client from a broker. Bytes in flight are lost.

Existing connections carry no more bytes in either direction. New connections are accepted, and carry no bytes. A fault
that delivers bytes late would be another fault, because late bytes make librdkafka itself wrong (KAFKA-17754).
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
from harness.runner.occupied import all_brokers
from nemeses.aiming.targets import broker_in_touch, choose, worker_at
from nemeses.effects.cuts import prove_cut

IN_SYNC_TIMEOUT_S = 60.0


def draw(rng: Random, targets: FaultTargets) -> DrawnFault:
    """Draw a cut: a broker from all its peers, two brokers from each other, or a worker from a broker."""
    peers = len(targets.brokers) > 1 and Ability.PEER_LINKS in targets.can
    several = ("isolate", "pair") if peers else ()
    kinds = (*several, *(("client",) if targets.endpoints else ()))
    kind = choose(rng, kinds, "a second broker, or a pipeline whose workers run here")
    broker, *peer = rng.sample(targets.brokers, min(2, len(targets.brokers)))
    if kind == "isolate":
        return DrawnFault(Target(kind, str(broker)))
    if kind == "pair":
        return DrawnFault(Target(kind, f"{min(broker, *peer)}-{max(broker, *peer)}"))
    return DrawnFault(Target(kind, f"{rng.choice(targets.endpoints)}-{broker}"))


@contextmanager
def partition(context: FaultContext, planned: PlannedFault) -> Iterator[InjectedFault]:
    """Cut the links. The fault acted if bytes sent into a link were lost, while its far end answered others."""
    links, who, other = _links(context, planned.target)
    effect = InjectedFault(target=f"{who} from {other}", short_target=who, other=other)
    effect.mark_injected()
    with context.cluster.network.impose(links, Cut()) as cut:
        yield effect
        prove_cut(effect, cut)
    context.cluster.await_in_sync(IN_SYNC_TIMEOUT_S, context.topics)


def _links(context: FaultContext, target: Target) -> tuple[Sequence[str], str, str]:
    """Return the links to cut, and the two sides in words.

    A link to the controller of a broker that is no controller does not exist, so it is left out.
    """
    there = set(context.cluster.network.links)
    one, _, other = target.name.rpartition("-")
    if target.role == "isolate":
        brokers = [broker.id for broker in context.cluster.brokers]
        links = [link for link in links_around(int(target.name), brokers) if link in there]
        return links, f"broker {target.name}", "its peers"
    if target.role == "pair":
        links = [link for link in links_between(int(one), int(other)) if link in there]
        return links, f"broker {one}", f"broker {other}"
    if target.role == "client":
        member = worker_at(context.processes, one)
        broker = broker_in_touch(context.cluster, member.endpoint, int(other))
        return [client_link(member.endpoint, broker)], f"worker {member.journal}", f"broker {broker}"
    raise FaultFailed(f"no cut is called {target}")


NEMESIS = Nemesis(
    name="partition",
    summary="cut a broker from its peers, or a client from a broker, losing what is in flight",
    past_tense="was cut off",
    needs=frozenset({Cut}),
    occupies=all_brokers,
    hold_s=10.0,
    recovery_s=5.0,
    draw=draw,
    inject=partition,
)
