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
    who = broker_in_role(context.cluster, planned.target)
    broker = await_broker_in_role(who, planned.target)
    named = f"broker {broker}"
    effect = InjectedFault(target=f"{named}, leader of {planned.target.name}", short_target=named)
    effect.details |= {"broker": str(broker), "partition": planned.target.name}
    begun_s = time.monotonic()
    effect.mark_injected()
    with context.cluster.isolate(broker, how) as proof:
        to_leave = f"{planned.target} to leave broker {broker}"
        moved = await_failover(effect, f"{named} was isolated", partial(other_broker, who, broker), to_leave)
        yield effect
        if moved is not None and (evidence := proof()):
            effect.add_proof(evidence)
            effect.add_proof(f"broker {moved} took over its role after {time.monotonic() - begun_s:.1f} s")
    context.cluster.await_in_sync(IN_SYNC_TIMEOUT_S, context.topics)
    effect.proof.append(f"in every ISR again after {time.monotonic() - begun_s:.1f} s")
