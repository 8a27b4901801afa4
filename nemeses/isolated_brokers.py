"""Faults that isolate a broker from the network until another broker leads its partition: a row of `NEMESES` each.

Proxies are not involved: the kernel or Docker isolates the container of the broker.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from harness.cluster import Ability
from harness.runner.nemesis import FaultContext, InjectedFault, Nemesis, PlannedFault, uses_brokers
from nemeses.aiming.roles import FAILOVER_BROKERS, await_broker_in_role, await_failover, other_broker
from nemeses.aiming.targets import any_leader, broker_in_role
from nemeses.effects.brokers import IN_SYNC_TIMEOUT_S


@contextmanager
def isolate_leader(how: Ability, context: FaultContext, planned: PlannedFault) -> Iterator[InjectedFault]:
    """Isolate the leader of a partition until the end of the `with`.

    The fault acted if the isolation is proved, and another broker leads the partition.
    """
    find_leader = broker_in_role(context.cluster, planned.target)
    broker = await_broker_in_role(context, find_leader, planned.target)
    broker_name = f"broker {broker}"
    effect = InjectedFault(target=f"{broker_name}, leader of {planned.target.name}", short_target=broker_name)
    effect.details |= {"broker": str(broker), "partition": planned.target.name}
    begun_s = time.monotonic()
    effect.mark_injected()
    with context.cluster.isolate(broker, how) as proof:
        awaited = f"{planned.target} to leave broker {broker}"
        find_successor = partial(other_broker, find_leader, broker)
        successor = await_failover(context, effect, f"{broker_name} was isolated", find_successor, awaited)
        yield effect
        if successor is not None and (evidence := proof()):
            effect.add_proof(evidence)
            effect.add_proof(
                f"broker {successor} took over its role after {time.monotonic() - begun_s:.1f} s"
            )
    context.cluster.await_in_sync(IN_SYNC_TIMEOUT_S, context.topics)
    effect.proof.append(f"in every ISR again after {time.monotonic() - begun_s:.1f} s")


def _isolation(name: str, summary: str, past_tense: str, proves: str, how: Ability) -> Nemesis:
    return Nemesis(
        name=name,
        summary=summary,
        past_tense=past_tense,
        proves=proves,
        needs=frozenset({how}),
        occupies=uses_brokers,
        hold_s=10.0,
        recovery_s=8.0,
        draw=any_leader,
        least_brokers=FAILOVER_BROKERS,
        inject=partial(isolate_leader, how),
        by_default=False,
    )


NEMESES: Sequence[Nemesis] = (
    # As a firewall or a broken switch does. A proxy cannot drop a connection request, because it accepts every
    # connection at once. With this fault the SYN packet is lost, so a new connection fails only after a time-out.
    # Existing connections are not closed, so both ends wait for their time-outs.
    _isolation(
        name="drop-packets",
        summary="drop every packet from and to the leader of a partition, including connection requests",
        past_tense="was cut off by iptables",
        proves="the kernel counted dropped packets, and another broker leads the partition",
        how=Ability.PACKETS,
    ),
    # As if its network cable was pulled. The broker loses its network interface and its address. When it sends, it
    # gets an error at once. Its peers and clients receive nothing. Its name cannot be resolved until it is connected
    # again.
    _isolation(
        name="disconnect-broker",
        summary="disconnect the leader of a partition from its network, and connect it again",
        past_tense="was disconnected",
        proves="Docker confirms it, and another broker leads the partition",
        how=Ability.DISCONNECT,
    ),
)
