"""lose-answers: a worker's requests to one broker arrive and are carried out, and no answer comes back.

The classic of exactly-once: a record stands in the log, and its producer cannot know. Once its patience or the fault
is over it sends the record again. An idempotent producer's second copy is dropped by the broker (KIP-98); any other
one stands there twice.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

from harness.network import DropResponses
from harness.network.links import client_link
from harness.runner.faults import Drawn, Effect, FaultContext, FaultTargets, Injection, Nemesis, Target
from harness.runner.occupied import all_brokers
from nemeses.cuts import prove
from nemeses.targets import broker_in_touch, one_of, worker_at


def draw(rng: Random, targets: FaultTargets) -> Drawn:
    """A worker's link to a broker."""
    slot = one_of(rng, targets.slots, "a pipeline whose workers run here")
    return Drawn(Target("client", f"{slot}-{rng.choice(targets.brokers)}"))


@contextmanager
def lose_answers(context: FaultContext, injection: Injection) -> Iterator[Effect]:
    """It acted if answers to the worker were sent into the link and lost, while the broker answered others."""
    slot, _, named = injection.target.name.rpartition("-")
    member = worker_at(context.processes, slot)
    broker = broker_in_touch(context.cluster, member.slot, int(named))
    who, other = f"worker {member.journal}", f"broker {broker}"
    effect = Effect(target=f"answers of {other} to {who}", who=f"the answers of {other} to {who}")
    effect.details |= {"worker": member.journal, "broker": str(broker)}
    effect.strikes()
    links = [client_link(member.slot, broker)]
    with context.cluster.network.impose(links, DropResponses()) as cut:
        yield effect
        prove(effect, cut)


NEMESIS = Nemesis(
    name="lose-answers",
    summary="lose what a broker answers a worker: its requests are carried out, and it cannot know",
    past_tense="were lost",
    needs=frozenset({DropResponses}),
    occupies=all_brokers,
    hold_s=4.0,
    recovery_s=4.0,
    draw=draw,
    strike=lose_answers,
    by_default=False,
)
