"""lose-unsynced-writes: a power failure of all brokers, in which everything is lost that they had not synced.

By default, Kafka calls fsync for records only when it rolls a segment: acknowledged records are safe because they are
on several machines. If all replicas lose their power at the same time, acknowledged records are lost (KIP-966). With
`--set broker.log.flush.interval.messages=1`, Kafka syncs each batch before it acknowledges it. It can be aimed at a
role: `lose-unsynced-writes@leader` is a power failure of one broker.
"""

from contextlib import AbstractContextManager
from random import Random

from harness.cluster import Ability
from harness.runner.nemesis import (
    DrawnFault,
    FaultContext,
    FaultTargets,
    InjectedFault,
    Nemesis,
    PlannedFault,
)
from nemeses.aiming.failover import FAILOVER_BROKERS
from nemeses.aiming.roles import ROLES, uses_brokers_in_role
from nemeses.effects import files
from nemeses.effects.brokers import kill


def draw(rng: Random, targets: FaultTargets) -> DrawnFault:
    """The target is all brokers."""
    return DrawnFault(ROLES["all"].draw(rng, targets, ""))


def lose_unsynced_writes(
    context: FaultContext, planned: PlannedFault
) -> AbstractContextManager[InjectedFault]:
    """Kill the brokers, and truncate their files. The fault acted if the syncs of each broker are known."""
    return files.damage_stopped(context, planned, kill, files.lose_unsynced, needs_other_replica=False)


NEMESIS = Nemesis(
    name="lose-unsynced-writes",
    summary="a power failure: kill -9 all brokers, cut off what they had not synced, and start them again",
    past_tense="lost power",
    proves="the signal ended each process, and the files were cut to the sizes that the broker had synced",
    needs=frozenset({Ability.KILL, Ability.FILES, Ability.DISKS}),
    occupies=uses_brokers_in_role,
    hold_s=4.0,
    recovery_s=15.0,
    draw=draw,
    roles=ROLES,
    least_brokers=FAILOVER_BROKERS,
    inject=lose_unsynced_writes,
    by_default=False,
)
