"""The shared part of faults that change what a broker's disk does, through the preloaded library."""

from collections.abc import Callable
from contextlib import AbstractContextManager

from harness.cluster import Broker
from harness.common.errors import FaultFailed, WaitTimeout
from harness.processes.preload import Preload
from harness.runner.nemesis import FaultContext, InjectedFault, PlannedFault
from nemeses.effects.brokers import change_in_role, inject_on_role

END_TIMEOUT_S = 30.0
SYNC_TIMEOUT_S = 10.0
"""Kafka writes its checkpoints every five seconds, and calls fsync then."""


def end_by_disk(
    context: FaultContext, planned: PlannedFault, change: Callable[[Preload], None], error: str
) -> AbstractContextManager[InjectedFault]:
    """Let the disk of a broker fail until the broker ends, and start the broker again on a disk that works.

    The fault acted if the broker ended after a call had failed, and another broker took over its role.
    """

    def fail(broker: Broker) -> str:
        before = broker.preload.changed_calls
        change(broker.preload)
        try:
            context.wait_for(lambda: not broker.running, f"broker {broker.id} to end", END_TIMEOUT_S)
        except WaitTimeout as timeout:
            raise FaultFailed(f"broker {broker.id} went on although its disk failed: {timeout}") from timeout
        failed = broker.preload.changed_calls - before
        return f"it ended after {failed} calls had failed with {error}" if failed else ""

    def heal(broker: Broker) -> None:
        broker.preload.heal_disk()
        broker.start()

    return inject_on_role(context, planned, fail, heal)


def slow_syncs(
    context: FaultContext, planned: PlannedFault, delay_s: float
) -> AbstractContextManager[InjectedFault]:
    """Let each fsync of the brokers that have the role take longer. The fault acted if each broker called fsync."""

    def prove(broker: Broker) -> str:
        delayed = context.wait_for(
            lambda: broker.preload.changed_calls - before[broker.id],
            f"broker {broker.id} to call fsync",
            SYNC_TIMEOUT_S,
        )
        return f"broker {broker.id} called fsync {delayed} times, each {delay_s:g} s slower"

    before = {broker.id: broker.preload.changed_calls for broker in context.cluster.brokers}
    return change_in_role(
        *(context, planned, lambda broker: broker.preload.delay_syncs(delay_s), prove),
        heal=lambda broker: broker.preload.heal_disk(),
    )
