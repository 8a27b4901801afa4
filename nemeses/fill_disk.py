"""fill-disk: the disk of a broker is full: each of its writes fails with ENOSPC, until the broker ends.

Kafka ends a broker when a write to its only log directory fails. The broker is started again on a disk with room. It
can be aimed at a role (`fill-disk@follower`). Without a role, it is the leader of a partition.
"""

from contextlib import AbstractContextManager

from harness.cluster import Ability
from harness.runner.nemesis import FaultContext, InjectedFault, Nemesis, PlannedFault, Resource
from harness.runner.occupied import uses_also
from nemeses.aiming.failover import FAILOVER_BROKERS
from nemeses.aiming.roles import ROLES, uses_brokers_in_role
from nemeses.aiming.targets import any_leader
from nemeses.effects.disks import end_by_disk


def fill_disk(context: FaultContext, planned: PlannedFault) -> AbstractContextManager[InjectedFault]:
    """Let writes fail. The fault acted if the broker ended because of them, and another broker took over its role."""
    return end_by_disk(
        *(context, planned),
        lambda preload, failing: preload.fail_writes(failing),
        lambda preload: preload.failed_writes,
        "ENOSPC",
    )


NEMESIS = Nemesis(
    name="fill-disk",
    summary="the disk of a broker is full, so that it ends; without a role, a partition's leader",
    past_tense="had a full disk",
    proves="its writes failed, it ended, and another broker took over a role that can move, or it left the ISR",
    needs=frozenset({Ability.DISKS}),
    occupies=uses_also(Resource.DISKS, uses_brokers_in_role),
    hold_s=8.0,
    recovery_s=12.0,
    draw=any_leader,
    roles=ROLES,
    least_brokers=FAILOVER_BROKERS,
    inject=fill_disk,
    by_default=False,
)
