"""kill-group-coordinator: kill the broker that coordinates a consumer group with SIGKILL, and start it again."""

from contextlib import AbstractContextManager

from harness.cluster import Ability
from harness.runner.nemesis import FaultContext, InjectedFault, Nemesis, PlannedFault
from harness.runner.occupied import uses_brokers
from nemeses.aiming.failover import FAILOVER_BROKERS
from nemeses.aiming.targets import any_group_coordinator
from nemeses.effects.brokers import inject_on_role, kill, start


def kill_group_coordinator(
    context: FaultContext, planned: PlannedFault
) -> AbstractContextManager[InjectedFault]:
    """Kill the coordinator. The fault acted if the signal ended its process, and another broker took over."""
    return inject_on_role(context, planned, kill, start)


NEMESIS = Nemesis(
    name="kill-group-coordinator",
    summary="kill -9 the coordinator of a stage's consumer group, and start it again",
    past_tense="was killed",
    proves="the signal ended its process, and another broker coordinates the group",
    needs=frozenset({Ability.KILL}),
    occupies=uses_brokers,
    hold_s=8.0,
    recovery_s=10.0,
    draw=any_group_coordinator,
    aimable=True,
    least_brokers=FAILOVER_BROKERS,
    inject=kill_group_coordinator,
)
