"""pause-broker: pause a broker with SIGSTOP until its session with the controller has ended.

It can be aimed at a role (`pause-broker@follower`). Without a role, it pauses the leader of a partition. The broker
keeps its sockets. When it is resumed, it still acts as the leader for a moment, so its first responses are stale.
"""

from contextlib import AbstractContextManager

from harness.cluster import Ability
from harness.runner.nemesis import FaultContext, InjectedFault, Nemesis, PlannedFault
from nemeses.aiming.failover import FAILOVER_BROKERS
from nemeses.aiming.roles import ROLES, uses_brokers_in_role
from nemeses.aiming.targets import any_leader
from nemeses.effects.brokers import inject_on_role, pause, resume


def pause_broker(context: FaultContext, planned: PlannedFault) -> AbstractContextManager[InjectedFault]:
    """Pause the broker. The fault acted if the kernel confirms it, and another broker took over its role."""
    return inject_on_role(context, planned, pause, resume)


NEMESIS = Nemesis(
    name="pause-broker",
    summary="SIGSTOP a broker until others have taken over, then SIGCONT; without a role, the leader of a partition",
    past_tense="was paused",
    proves="the kernel reports its process as stopped, and another broker took over its role or it left the ISR",
    needs=frozenset({Ability.PAUSE}),
    occupies=uses_brokers_in_role,
    hold_s=9.0,
    recovery_s=6.0,
    draw=any_leader,
    aimable=True,
    roles=ROLES,
    least_brokers=FAILOVER_BROKERS,
    inject=pause_broker,
)
