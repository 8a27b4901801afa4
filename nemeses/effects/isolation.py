"""What the faults have in common that take a broker off the network: its role must pass to another."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from harness.cluster import Ability
from harness.runner.nemesis import FaultContext, InjectedFault, PlannedFault
from nemeses.aiming.failover import another, await_failover, first_in_role
from nemeses.aiming.targets import broker_in_role
from nemeses.effects.brokers import IN_SYNC_TIMEOUT_S


@contextmanager
def isolated(context: FaultContext, injection: PlannedFault, how: Ability) -> Iterator[InjectedFault]:
    """Isolate the leader of a partition for the length of a `with`; it acted if it can be shown, and another leads."""
    who = broker_in_role(context.cluster, injection.target)
    broker = first_in_role(who, injection.target)
    named = f"broker {broker}"
    effect = InjectedFault(target=f"{named}, leader of {injection.target.name}", who=named)
    effect.details |= {"broker": str(broker), "partition": injection.target.name}
    begun_s = time.monotonic()
    effect.mark_injected()
    with context.cluster.isolate(broker, how) as proof:
        to_leave = f"{injection.target} to leave broker {broker}"
        moved = await_failover(effect, f"{named} was isolated", partial(another, who, broker), to_leave)
        yield effect
        if moved is not None and (shown := proof()):
            effect.saw(shown)
            effect.saw(f"broker {moved} took over its role after {time.monotonic() - begun_s:.1f} s")
    context.cluster.await_in_sync(IN_SYNC_TIMEOUT_S, context.topics)
    effect.proof.append(f"in every ISR again after {time.monotonic() - begun_s:.1f} s")
