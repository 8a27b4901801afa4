"""lose-answers: drop a broker's responses to a worker. Its requests arrive and still take effect.

This is the classic problem of exactly-once: a record is in the log, and its producer cannot know that. After a
time-out, or when the fault is over, the producer sends the record again. If the producer is idempotent, the broker
drops the second copy (KIP-98). Otherwise the record is in the log twice.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

from harness.network import DropResponses, client_link
from harness.runner.nemesis import (
    DrawnFault,
    FaultContext,
    FaultTargets,
    InjectedFault,
    Nemesis,
    PlannedFault,
    Target,
    uses_brokers,
)
from nemeses.aiming.targets import broker_in_use, choose, worker_at_endpoint
from nemeses.effects.links import prove_on_links


def draw(rng: Random, targets: FaultTargets) -> DrawnFault:
    """Draw a worker's link to a broker."""
    endpoint = choose(rng, targets.endpoints, "a pipeline whose workers run on this machine")
    return DrawnFault(Target("client", f"{endpoint}-{rng.choice(targets.brokers)}"))


@contextmanager
def lose_answers(context: FaultContext, planned: PlannedFault) -> Iterator[InjectedFault]:
    """Drop the responses. The fault acted if responses to the worker were lost while the broker answered others."""
    endpoint, _, drawn = planned.target.name.rpartition("-")
    member = worker_at_endpoint(context.processes, endpoint)
    broker = broker_in_use(context, member.endpoint, int(drawn))
    responses = f"responses of broker {broker} to worker {member.journal}"
    effect = InjectedFault(target=responses, short_target=f"the {responses}")
    effect.details |= {"worker": member.journal, "broker": str(broker)}
    effect.mark_injected()
    links = [client_link(member.endpoint, broker)]
    with context.cluster.network.impose(links, DropResponses()) as cut:
        yield effect
        prove_on_links(context, effect, cut)


NEMESIS = Nemesis(
    name="lose-answers",
    summary="drop a broker's responses to a worker; its requests still take effect",
    past_tense="were lost",
    proves="responses to the worker were lost, while the broker answered others",
    needs=frozenset({DropResponses}),
    occupies=uses_brokers,
    hold_s=4.0,
    recovery_s=4.0,
    draw=draw,
    inject=lose_answers,
    halts=True,
    by_default=False,
    sources=("KIP-98",),
)
