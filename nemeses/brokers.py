"""What the faults that strike a broker have in common: the role must pass to another."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from harness.cluster import Broker
from harness.errors import FaultFailed, WaitTimeout
from harness.runner.faults import Effect, FaultContext, Injection
from harness.waiting import wait_for
from nemeses.targets import broker_in_role

MOVE_TIMEOUT_S = 30.0
IN_SYNC_TIMEOUT_S = 90.0


@contextmanager
def struck(
    context: FaultContext,
    injection: Injection,
    hit: Callable[[Broker], str],
    heal: Callable[[Broker], object],
) -> Iterator[Effect]:
    """Strike the broker that fills a role, wait until another fills it, and put it right."""
    who = broker_in_role(context.cluster, injection.target)
    first = wait_for(lambda: max(who(), 0), f"a broker to be {injection.target}", MOVE_TIMEOUT_S, every_s=0.2)
    broker = next((broker for broker in context.cluster.brokers if broker.id == first), None)
    if broker is None:
        raise FaultFailed(f"{injection.target} is broker {first}, which is not of this cluster")
    named = f"broker {broker.id}"
    effect = Effect(target=f"{named}, {injection.target.role} of {injection.target.name}", who=named)
    begun_s = time.monotonic()
    try:
        effect.strikes()
        proof = hit(broker)
        try:
            moved = wait_for(
                partial(_other, who, first),
                f"{injection.target} to leave broker {first}",
                MOVE_TIMEOUT_S,
                every_s=0.2,
            )
        except WaitTimeout as error:
            effect.lacking["failover"] = f"{proof}, but {error}"
        else:
            effect.saw(proof)
            effect.saw(f"broker {moved} took over its role after {time.monotonic() - begun_s:.1f} s")
        yield effect
    finally:
        heal(broker)
    context.cluster.await_in_sync(IN_SYNC_TIMEOUT_S, context.topics)
    effect.proof.append(f"in every ISR again after {time.monotonic() - begun_s:.1f} s")


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
