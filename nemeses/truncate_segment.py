"""truncate-segment: kill a broker, cut off the end of a segment file, and start the broker again.

This is a power failure of one machine: the end of a log that was not synced is gone. It can be aimed at `leader` or
`follower` of a partition. The parameter `share` says how much of the last segment file is lost.
"""

from contextlib import AbstractContextManager

from harness.cluster import Ability
from harness.runner.nemesis import FaultContext, InjectedFault, Nemesis, PlannedFault
from nemeses.aiming.failover import FAILOVER_BROKERS
from nemeses.aiming.roles import uses_brokers_in_role
from nemeses.aiming.targets import any_leader
from nemeses.effects import files
from nemeses.effects.brokers import kill


def truncate_segment(context: FaultContext, planned: PlannedFault) -> AbstractContextManager[InjectedFault]:
    """Truncate the file. The fault acted if the file is shorter, and another broker took over its role."""
    return files.damage_stopped(
        context, planned, kill, lambda broker: files.truncate_segment(broker, planned)
    )


NEMESIS = Nemesis(
    name="truncate-segment",
    summary="kill -9 a broker, cut off the end of a segment file, start it again; without a role, the leader",
    past_tense="was restarted with a truncated log",
    proves="the file was truncated while the broker was down, and it had left its role or the ISR",
    needs=frozenset({Ability.KILL, Ability.FILES}),
    occupies=uses_brokers_in_role,
    hold_s=8.0,
    recovery_s=10.0,
    draw=any_leader,
    parameters={"share": files.SHARES},
    limits={"share": (0.0, 1.0)},
    roles=files.REPLICAS,
    least_brokers=FAILOVER_BROKERS,
    least_replicas=2,
    inject=truncate_segment,
    by_default=False,
)
