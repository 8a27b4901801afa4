"""partition: a broker is cut from its peers, or a client from a broker; what is in flight is lost.

Both directions go silent on connections that stand, and new ones connect and stay silent. A fault
that holds bytes and delivers them late is another one: it makes librdkafka itself wrong
(KAFKA-17754).
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from random import Random

from harness.cluster import Cut
from harness.errors import FaultFailed
from harness.runner.schedule import Effect, FaultContext, FaultTargets, Injection, Lane, Nemesis
from nemeses.targets import worker_at

IN_SYNC_TIMEOUT_S = 60.0


def draw(rng: Random, grounds: FaultTargets) -> tuple[str, None]:
    """A broker from all its peers, two brokers from each other, or a worker from a broker."""
    kind = rng.choice(("isolate", "pair", "client"))
    one, other = rng.sample(grounds.brokers, 2)
    if kind == "isolate":
        return f"isolate:{one}", None
    if kind == "pair":
        return f"pair:{min(one, other)}-{max(one, other)}", None
    return f"client:{rng.choice(grounds.slots)}-{one}", None


@contextmanager
def partition(context: FaultContext, injection: Injection) -> Iterator[Effect]:
    """It acted if the links were in use when they were cut and let nothing through while they were."""
    cut_off, words = _cut(context, injection.target)
    effect = Effect(target=words)
    with cut_off as cut:
        yield effect
        effect.saw(cut.evidence())
    context.cluster.await_in_sync(IN_SYNC_TIMEOUT_S)


def _cut(context: FaultContext, target: str) -> tuple[AbstractContextManager[Cut], str]:
    kind, _, names = target.partition(":")
    one, _, other = names.rpartition("-")
    if kind == "isolate":
        return context.network.isolate(int(names)), f"broker {names} from its peers"
    if kind == "pair":
        return context.network.cut_peers(int(one), int(other)), f"broker {one} from broker {other}"
    if kind == "client":
        member = worker_at(context.processes, one)
        return context.network.cut_client(member.slot, int(other)), f"{member.journal} from broker {other}"
    raise FaultFailed(f"no cut is called {target}")


NEMESIS = Nemesis(
    name="partition",
    summary="cut a broker from its peers, or a client from a broker, losing what is in flight",
    lane=Lane.CLUSTER,
    hold_s=10.0,
    recovery_s=5.0,
    draw=draw,
    strike=partition,
)
