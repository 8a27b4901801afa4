"""kill-broker: kill a broker with SIGKILL, and start it again on its old data.

It can be aimed at a role (`kill-broker@controller`), at a step of a worker's loop, and at the markers of a transaction:
`kill-broker@before-markers`. Without a role, it kills the leader of a partition.
"""

from contextlib import AbstractContextManager

from harness.cluster import Ability
from harness.runner.nemesis import FaultContext, InjectedFault, Nemesis, PlannedFault
from nemeses.aiming.around_markers import AFTER, BEFORE, kill_around_markers
from nemeses.aiming.failover import FAILOVER_BROKERS
from nemeses.aiming.roles import ROLES, uses_brokers_in_role
from nemeses.aiming.targets import any_leader
from nemeses.effects.brokers import inject_on_role, kill, start


def kill_broker(context: FaultContext, planned: PlannedFault) -> AbstractContextManager[InjectedFault]:
    """Kill the broker. The fault acted if the signal ended its process, and another broker took over its role."""
    if planned.state is not None:
        return kill_around_markers(context, planned)
    return inject_on_role(context, planned, kill, start)


NEMESIS = Nemesis(
    name="kill-broker",
    summary="kill -9 a broker, and start it again; without a role, the leader of a partition",
    past_tense="was killed",
    proves="the signal ended its process, and another broker took over a role that can move, or it left the ISR",
    needs=frozenset({Ability.KILL}),
    occupies=uses_brokers_in_role,
    hold_s=8.0,
    recovery_s=10.0,
    draw=any_leader,
    aimable=True,
    roles=ROLES,
    states=frozenset({BEFORE, AFTER}),
    least_brokers=FAILOVER_BROKERS,
    inject=kill_broker,
)
