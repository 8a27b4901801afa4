"""kill-broker: kill the leader of a partition with SIGKILL, and start it again on its old data.

It can be aimed at a step of a worker's loop, and at the markers of a transaction: `kill-broker@before-markers`.
"""

from contextlib import AbstractContextManager

from harness.cluster import Ability
from harness.runner.nemesis import FaultContext, InjectedFault, Nemesis, PlannedFault
from harness.runner.occupied import uses_brokers
from nemeses.aiming.around_markers import AFTER, BEFORE, kill_around_markers
from nemeses.aiming.failover import FAILOVER_BROKERS
from nemeses.aiming.targets import any_leader
from nemeses.effects.brokers import inject_on_role, kill, restart


def kill_broker(context: FaultContext, planned: PlannedFault) -> AbstractContextManager[InjectedFault]:
    """Kill the leader. The fault acted if the signal ended its process, and another broker leads the partition."""
    if planned.state is not None:
        return kill_around_markers(context, planned)
    return inject_on_role(context, planned, kill, restart)


NEMESIS = Nemesis(
    name="kill-broker",
    summary="kill -9 the leader of a partition, and start it again",
    past_tense="was killed",
    proves="the signal ended its process, and another broker leads the partition",
    needs=frozenset({Ability.KILL}),
    occupies=uses_brokers,
    hold_s=8.0,
    recovery_s=10.0,
    draw=any_leader,
    aimable=True,
    states=frozenset({BEFORE, AFTER}),
    least_brokers=FAILOVER_BROKERS,
    inject=kill_broker,
)
