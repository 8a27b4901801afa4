"""pause-broker: pause the leader of a partition with SIGSTOP until its session with the controller has ended.

It keeps its sockets. When it is resumed, it still acts as the leader for a moment, so its first responses are stale.
"""

from contextlib import AbstractContextManager

from harness.cluster import Ability
from harness.runner.nemesis import FaultContext, InjectedFault, Nemesis, PlannedFault
from harness.runner.occupied import uses_brokers
from nemeses.aiming.failover import FAILOVER_BROKERS
from nemeses.aiming.targets import any_leader
from nemeses.effects.brokers import inject_on_role, pause, resume


def pause_broker(context: FaultContext, planned: PlannedFault) -> AbstractContextManager[InjectedFault]:
    """Pause the leader. The fault acted if the kernel confirms that it is stopped, and another leads."""
    return inject_on_role(context, planned, pause, resume)


NEMESIS = Nemesis(
    name="pause-broker",
    summary="SIGSTOP the leader of a partition until another leads it, then SIGCONT",
    past_tense="was paused",
    proves="the kernel reports its process as stopped, and another broker leads the partition",
    needs=frozenset({Ability.PAUSE}),
    occupies=uses_brokers,
    hold_s=9.0,
    recovery_s=6.0,
    draw=any_leader,
    aimable=True,
    least_brokers=FAILOVER_BROKERS,
    inject=pause_broker,
)
