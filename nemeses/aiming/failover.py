"""Failover: when a broker is gone, another broker must take over its role."""

from collections.abc import Callable
from typing import TypeVar

from harness.common.errors import WaitTimeout
from harness.common.waiting import wait_for
from harness.runner.nemesis import InjectedFault, Target

MOVE_TIMEOUT_S = 30.0
FAILOVER = "failover"
FAILOVER_BROKERS = 3
"""The number of brokers that a failover needs. With two brokers, the one that is gone may be the only controller."""
T = TypeVar("T")


def await_failover(effect: InjectedFault, proof: str, probe: Callable[[], T | None], what: str) -> T | None:
    """Wait until `probe` returns a value, and return it.

    None if it returns none in time. Then the effect has the reason, and the run goes on, because a missing failover
    may be a bug of Kafka. `proof` says what the fault did.
    """
    try:
        return wait_for(probe, what, MOVE_TIMEOUT_S, every_s=0.2)
    except WaitTimeout as error:
        effect.unmet_goals[FAILOVER] = f"{proof}, but {error}"
        return None


def await_broker_in_role(who: Callable[[], int], target: Target) -> int:
    """Return the broker that has the role, as soon as there is one. Raises `WaitTimeout`."""
    return wait_for(lambda: max(who(), 0), f"a broker to be {target}", MOVE_TIMEOUT_S, every_s=0.2)


def other_broker(who: Callable[[], int], first: int) -> int | None:
    """Return the broker that has the role now. None if it is still the first one, or none (there is no broker 0)."""
    now = who()
    return now if now > 0 and now != first else None
