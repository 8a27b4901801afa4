"""fail-fsync: each fsync of a broker fails with EIO, as on a broken disk, until the broker ends.

Kafka calls fsync when it writes its checkpoints (every five seconds), when it rolls a segment, and for the metadata
log. The broker is started again on a disk that works. It can be aimed at a role (`fail-fsync@controller`). Without a
role, it is the leader of a partition.
"""

from contextlib import AbstractContextManager

from harness.cluster import Ability
from harness.runner.nemesis import FaultContext, InjectedFault, Nemesis, PlannedFault, Resource
from harness.runner.occupied import uses_also
from nemeses.aiming.failover import FAILOVER_BROKERS
from nemeses.aiming.roles import ROLES, uses_brokers_in_role
from nemeses.aiming.targets import any_leader
from nemeses.effects.disks import end_by_disk


def fail_fsync(context: FaultContext, planned: PlannedFault) -> AbstractContextManager[InjectedFault]:
    """Let fsync fail. The fault acted if the broker ended because of it, and another broker took over its role."""
    return end_by_disk(
        *(context, planned),
        lambda preload, failing: preload.fail_syncs(failing),
        lambda preload: preload.failed_syncs,
        "EIO",
    )


NEMESIS = Nemesis(
    name="fail-fsync",
    summary="each fsync of a broker fails, so that it ends; without a role, a partition's leader",
    past_tense="had a disk on which fsync failed",
    proves="its fsync failed, it ended, and another broker took over a role that can move, or it left the ISR",
    needs=frozenset({Ability.DISKS}),
    occupies=uses_also(Resource.DISKS, uses_brokers_in_role),
    hold_s=8.0,
    recovery_s=12.0,
    draw=any_leader,
    roles=ROLES,
    least_brokers=FAILOVER_BROKERS,
    inject=fail_fsync,
    by_default=False,
)
