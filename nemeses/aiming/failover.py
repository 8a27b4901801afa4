"""What must come about once a broker is gone: another takes its role over, and goes on with what it left."""

from collections.abc import Callable
from typing import TypeVar

from harness.common.errors import WaitTimeout
from harness.common.waiting import wait_for
from harness.runner.nemesis import InjectedFault, Target

MOVE_TIMEOUT_S = 30.0
FAILOVER = "failover"
FAILOVER_BROKERS = 3
"""Of fewer nobody can elect another once one is gone: one has no other, and of two one is the only controller."""
T = TypeVar("T")


def await_failover(effect: InjectedFault, proof: str, probe: Callable[[], T | None], what: str) -> T | None:
    """What the probe gives once it gives something.

    None where nothing comes about in time: the effect then lacks it, and the run is judged all the same, for that may
    be the very bug that is looked for. `proof`: what was done.
    """
    try:
        return wait_for(probe, what, MOVE_TIMEOUT_S, every_s=0.2)
    except WaitTimeout as error:
        effect.unmet_goals[FAILOVER] = f"{proof}, but {error}"
        return None


def await_broker_in_role(who: Callable[[], int], target: Target) -> int:
    """The broker that has the role. Raises `WaitTimeout` where none takes it."""
    return wait_for(lambda: max(who(), 0), f"a broker to be {target}", MOVE_TIMEOUT_S, every_s=0.2)


def other_broker(who: Callable[[], int], first: int) -> int | None:
    """Who fills the role now, if it is another; broker 0 does not exist."""
    now = who()
    return now if now > 0 and now != first else None
