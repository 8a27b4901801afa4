"""The shared part of faults that change the wall clock of a broker.

Only the clock that its process sees is changed, through the preloaded library. Its monotonic clock is right, and its
waits and sleeps keep their lengths.
"""

import time
from contextlib import AbstractContextManager

from harness.cluster import Broker
from harness.runner.nemesis import FaultContext, InjectedFault, PlannedFault
from nemeses.effects.brokers import change_in_role

JUMPS_S = (3600.0, -3600.0)
"""An hour ahead or behind, as after a mistake with time zones."""
SEEN_TIMEOUT_S = 20.0


def change_broker_clock(
    context: FaultContext, planned: PlannedFault, ahead_s: float = 0.0, rate: float = 1.0
) -> AbstractContextManager[InjectedFault]:
    """Set the clock of the brokers that have the role, and set it back at the heal.

    The fault acted if, before the heal, each of the brokers writes a record with a time stamp of the changed clock. A
    broker whose clock was ahead is killed and started again at the heal.

    Args:
        context: The parts of the run.
        planned: The fault.
        ahead_s: How far the clock jumps ahead. Negative: behind.
        rate: How many seconds it then moves on in each second.
    """
    begun_s: dict[int, float] = {}

    def change(broker: Broker) -> None:
        context.cluster.clock_ahead_s(broker.id)  # so that the topic of this record exists
        begun_s[broker.id] = time.monotonic()
        broker.preload.set_clock(ahead_s, rate)

    def prove(broker: Broker) -> str:
        measured_s = 0.0

        def is_changed() -> bool:
            nonlocal measured_s
            expected_s = ahead_s + (rate - 1) * (time.monotonic() - begun_s[broker.id])
            measured_s = context.cluster.clock_ahead_s(broker.id)
            return abs(measured_s - expected_s) < abs(expected_s) / 2

        context.wait_for(
            is_changed,
            f"broker {broker.id} to write a record with a time of the changed clock",
            SEEN_TIMEOUT_S,
            every_s=0.5,
            last_seen=lambda: in_words(measured_s),
        )
        return f"broker {broker.id} wrote a record with a time {in_words(measured_s)}"

    def heal(broker: Broker) -> None:
        broker.preload.set_clock()
        if ahead_s > 0:
            # Else Kafka does not connect again before its clock has caught up with the last connection.
            broker.kill()
            broker.start()

    return change_in_role(context, planned, change, prove, heal)


def in_words(ahead_s: float) -> str:
    """Describe a wrong clock for a message: "3,600.0 s behind the clock of this machine"."""
    return f"{abs(ahead_s):,.1f} s {'behind' if ahead_s < 0 else 'ahead of'} the clock of this machine"
