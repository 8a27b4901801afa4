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
    context: FaultContext,
    planned: PlannedFault,
    set_failing: Callable[[Preload, bool], None],
    count: Callable[[Preload], int],
    error: str,
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


def slow_syncs(
    context: FaultContext, planned: PlannedFault, delay_s: float
) -> AbstractContextManager[InjectedFault]:
    """Let each fsync of the brokers that have the role take longer.

    The fault acted if each broker called fsync, and the calls waited as long as `delay_s` says.
    """

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
