"""The shared part of faults that isolate a broker from the network: another broker must take over its role."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from harness.cluster import Ability
from harness.runner.nemesis import FaultContext, InjectedFault, PlannedFault
from nemeses.aiming.failover import await_broker_in_role, await_failover, other_broker
from nemeses.aiming.targets import broker_in_role
from nemeses.effects.brokers import IN_SYNC_TIMEOUT_S


@contextmanager
def isolate_leader(context: FaultContext, planned: PlannedFault, how: Ability) -> Iterator[InjectedFault]:
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
