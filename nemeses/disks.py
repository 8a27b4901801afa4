"""Faults that change what a broker's disk does, through the preloaded library: a row of `NEMESES` each.

Each can be aimed at a role (`fail-fsync@controller`). Without a role, its target is the leader of a partition.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial

from harness.cluster import Ability, Broker
from harness.common.errors import FaultFailed, WaitTimeout
from harness.processes.preload import Preload
from harness.runner.nemesis import FaultContext, InjectedFault, Nemesis, PlannedFault, Resource, uses_also
from nemeses.aiming.roles import FAILOVER_BROKERS, ROLES, uses_brokers_in_role
from nemeses.aiming.targets import any_leader
from nemeses.effects.brokers import change_in_role, inject_on_role

END_TIMEOUT_S = 30.0
SYNC_TIMEOUT_S = 10.0
"""Kafka writes its checkpoints every five seconds, and calls fsync then."""


def end_by_disk(
    set_failing: Callable[[Preload, bool], None],
    count: Callable[[Preload], int],
    error: str,
    context: FaultContext,
    planned: PlannedFault,
) -> AbstractContextManager[InjectedFault]:
    """Let the disk of a broker fail until the broker ends, and start the broker again on a disk that works.

    The fault acted if the broker ended after a call had failed, and another broker took over its role.
    """

    def fail(broker: Broker) -> str:
        before = count(broker.preload)
        set_failing(broker.preload, True)
        try:
            context.wait_for(lambda: not broker.running, f"broker {broker.id} to end", END_TIMEOUT_S)
        except WaitTimeout as timeout:
            raise FaultFailed(f"broker {broker.id} went on although its disk failed: {timeout}") from timeout
        failed = count(broker.preload) - before
        return f"it ended after {failed} calls had failed with {error}" if failed else ""

    def heal(broker: Broker) -> None:
        set_failing(broker.preload, False)
        broker.start()

    return inject_on_role(context, planned, fail, heal)


def slow_syncs(context: FaultContext, planned: PlannedFault) -> AbstractContextManager[InjectedFault]:
    """Let each fsync of the brokers that have the role take longer by the parameter `delay_s`.

    The fault acted if each broker called fsync, and the calls waited that long.
    """
    delay_s = float(planned.parameters["delay_s"])

    def prove(broker: Broker) -> str:
        def delayed() -> tuple[int, float] | None:
            count, waited_s = broker.preload.delayed_syncs
            count, waited_s = count - before[broker.id][0], waited_s - before[broker.id][1]
            return (count, waited_s / count) if count and waited_s >= count * delay_s else None

        count, each_s = context.wait_for(
            delayed, f"broker {broker.id} to call fsync {delay_s:g} s slower", SYNC_TIMEOUT_S + delay_s
        )
        return f"broker {broker.id} called fsync {count} times, each {each_s:.2f} s slower"

    before = {broker.id: broker.preload.delayed_syncs for broker in context.cluster.brokers}
    return change_in_role(
        *(context, planned, lambda broker: broker.preload.delay_syncs(delay_s), prove),
        heal=lambda broker: broker.preload.delay_syncs(0.0),
    )


NEMESES: Sequence[Nemesis] = (
    # Each write of the broker fails with ENOSPC. Kafka ends a broker when a write to its only log directory fails.
    Nemesis(
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
        inject=partial(
            end_by_disk,
            lambda preload, failing: preload.fail_writes(failing),
            lambda preload: preload.failed_writes,
            "ENOSPC",
        ),
        by_default=False,
    ),
    # Kafka calls fsync when it writes its checkpoints, when it rolls a segment, and for each record of the metadata
    # log.
    Nemesis(
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
        inject=slow_syncs,
        by_default=False,
    ),
    # Each fsync fails with EIO, as on a broken disk.
    Nemesis(
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
        inject=partial(
            end_by_disk,
            lambda preload, failing: preload.fail_syncs(failing),
            lambda preload: preload.failed_syncs,
            "EIO",
        ),
        by_default=False,
    ),
)
