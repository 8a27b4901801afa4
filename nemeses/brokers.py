"""What the faults that strike a broker have in common: the role must pass to another."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from harness.cluster import Broker
from harness.errors import FaultFailed, WaitTimeout
from harness.schedule import Acted, Scene, Strike
from harness.waiting import wait_for
from nemeses.targets import broker_in_role

MOVE_TIMEOUT_S = 30.0
IN_SYNC_TIMEOUT_S = 90.0


@contextmanager
def struck(
    scene: Scene, strike: Strike, hit: Callable[[Broker], str], heal: Callable[[Broker], object]
) -> Iterator[Acted]:
    """Strike the broker that fills a role, wait until another fills it, and put it right."""
    who = broker_in_role(scene.cluster, strike.target)
    first = wait_for(lambda: max(who(), 0), f"a broker to be {strike.target}", MOVE_TIMEOUT_S, every_s=0.2)
    broker = next((broker for broker in scene.cluster.brokers if broker.id == first), None)
    if broker is None:
        raise FaultFailed(f"{strike.target} is broker {first}, which is not of this cluster")
    acted = Acted(target=f"broker {broker.id}, {strike.target.replace(':', ' of ', 1)}")
    begun_s = time.monotonic()
    try:
        proof = hit(broker)
        try:
            moved = wait_for(
                partial(_other, who, first),
                f"{strike.target} to leave broker {first}",
                MOVE_TIMEOUT_S,
                every_s=0.2,
            )
        except WaitTimeout as error:
            acted.lacking["failover"] = f"{proof}, but {error}"
        else:
            acted.saw(proof)
            acted.saw(f"its role passed to broker {moved} after {time.monotonic() - begun_s:.1f} s")
        yield acted
    finally:
        heal(broker)
    scene.cluster.await_in_sync(IN_SYNC_TIMEOUT_S)
    acted.proof.append(f"in every ISR again after {time.monotonic() - begun_s:.1f} s")


def _other(who: Callable[[], int], first: int) -> int | None:
    """Who fills the role now, if it is another; broker 0 does not exist."""
    now = who()
    return now if now > 0 and now != first else None


def kill(broker: Broker) -> str:
    """SIGKILL."""
    return broker.kill()


def restart(broker: Broker) -> None:
    """Start it again on its old data."""
    broker.start()


def pause(broker: Broker) -> str:
    """SIGSTOP: it keeps its sockets and its leases, and answers nobody."""
    return broker.pause()


def resume(broker: Broker) -> str:
    """SIGCONT."""
    return broker.resume()
