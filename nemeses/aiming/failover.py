"""Failover: when a broker is gone, another broker must take over its role."""

from collections.abc import Callable
from typing import TypeVar

from harness.common.errors import WaitTimeout
from harness.runner.nemesis import FaultContext, InjectedFault, Target

MOVE_TIMEOUT_S = 30.0
FAILOVER = "failover"
FAILOVER_BROKERS = 3
"""The number of brokers that a failover needs. If one of two brokers stops, it may be the only controller."""
T = TypeVar("T")


def await_failover(
    context: FaultContext, effect: InjectedFault, proof: str, probe: Callable[[], T | None], awaited: str
) -> T | None:
    """Wait until `probe` returns a true value, and return it.

    None if it returns no such value in time. Then the effect has the reason, and the run continues, because a missing
    failover may be a bug of Kafka.

    Args:
        proof: Says what the fault did: `process 4711 ended by SIGKILL`.
        awaited: Completes the sentence "waited 10 s for ...".
    """
    try:
        return context.wait_for(probe, awaited, MOVE_TIMEOUT_S, every_s=0.2)
    except WaitTimeout as error:
        effect.unmet_goals[FAILOVER] = f"{proof}, but {error}"
        return None


def await_broker_in_role(context: FaultContext, find_broker: Callable[[], int], target: Target) -> int:
    """Wait until a broker has the role, and return its number. Raises `WaitTimeout`."""
    return context.wait_for(
        lambda: max(find_broker(), 0), f"a broker to be {target}", MOVE_TIMEOUT_S, every_s=0.2
    )


def other_broker(find_broker: Callable[[], int], first: int) -> int | None:
    """Return the broker that has the role now. None if it is still `first`, or if no broker has the role."""
    now = find_broker()
    return now if now > 0 and now != first else None  # no broker has the number 0
