"""empty-disk: kill a broker, delete all of its data, and start it again on an empty disk.

The folder is formatted with the same cluster id and a new directory id, as after a disk was replaced. The broker
replicates all partitions again. It can be aimed at a role of one broker (`empty-disk@controller`). Without a role, it
is the leader of a partition.
"""

from contextlib import AbstractContextManager

from harness.cluster import Ability
from harness.runner.nemesis import FaultContext, InjectedFault, Nemesis, PlannedFault
from nemeses.aiming.failover import FAILOVER_BROKERS
from nemeses.aiming.roles import ROLES, uses_brokers_in_role
from nemeses.aiming.targets import any_leader
from nemeses.effects import files
from nemeses.effects.brokers import kill

ONE_BROKER = {role: choice for role, choice in ROLES.items() if role not in ("minority", "majority", "all")}


def empty_disk(context: FaultContext, planned: PlannedFault) -> AbstractContextManager[InjectedFault]:
    """Empty the disk. The fault acted if the files are gone, and another broker took over its role."""
    return files.damage_stopped(context, planned, kill, files.empty_disk)


NEMESIS = Nemesis(
    name="empty-disk",
    summary="kill -9 a broker, delete its data, start it on an empty disk; without a role, a partition's leader",
    past_tense="was restarted on an empty disk",
    proves="its files were deleted while it was down, and it had left its role or the ISR",
    needs=frozenset({Ability.KILL, Ability.FILES}),
    occupies=uses_brokers_in_role,
    hold_s=8.0,
    recovery_s=12.0,
    draw=any_leader,
    roles=ONE_BROKER,
    least_brokers=FAILOVER_BROKERS,
    least_replicas=2,
    inject=empty_disk,
    by_default=False,
)
