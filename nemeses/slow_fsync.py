"""slow-fsync: each fsync of a broker takes half a second longer.

The parameter `delay_s` says how much longer. Kafka calls fsync when it writes its checkpoints, when it rolls a segment,
and for each record of the metadata log. It can be aimed at a role (`slow-fsync@controller`). Without a role, it is the
leader of a partition.
"""

from contextlib import AbstractContextManager

from harness.cluster import Ability
from harness.runner.nemesis import FaultContext, InjectedFault, Nemesis, PlannedFault, Resource
from harness.runner.occupied import uses_also
from nemeses.aiming.roles import ROLES, uses_brokers_in_role
from nemeses.aiming.targets import any_leader
from nemeses.effects.disks import slow_syncs


def slow_fsync(context: FaultContext, planned: PlannedFault) -> AbstractContextManager[InjectedFault]:
    """Delay fsync. The fault acted if the calls of the broker took longer."""
    return slow_syncs(context, planned, float(planned.parameters["delay_s"]))


NEMESIS = Nemesis(
    name="slow-fsync",
    summary="each fsync of a broker takes half a second longer; without a role, a partition's leader",
    past_tense="had a slow fsync",
    proves="the broker called fsync, and each call took longer",
    needs=frozenset({Ability.DISKS}),
    occupies=uses_also(Resource.DISKS, uses_brokers_in_role),
    hold_s=12.0,
    recovery_s=6.0,
    draw=any_leader,
    parameters={"delay_s": (0.5,)},
    limits={"delay_s": (0.01, 60.0)},
    roles=ROLES,
    inject=slow_fsync,
    by_default=False,
)
