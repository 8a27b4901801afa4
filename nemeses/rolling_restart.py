"""rolling-restart: shut down each broker in turn with SIGTERM, and start it again, as for a new configuration.

The next broker is shut down when all replicas are in sync again. So every leader, every coordinator and the active
controller move at least once.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

from harness.cluster import Ability
from harness.results.wording import join_words
from harness.runner.nemesis import (
    DrawnFault,
    FaultContext,
    FaultTargets,
    InjectedFault,
    Nemesis,
    PlannedFault,
    Target,
)
from harness.runner.occupied import uses_brokers
from nemeses.aiming.failover import FAILOVER_BROKERS
from nemeses.effects.brokers import brokers_in_role, restart


@contextmanager
def rolling_restart(context: FaultContext, planned: PlannedFault) -> Iterator[InjectedFault]:
    """Restart every broker. The fault acted if each process shut down cleanly and another one runs in its place."""
    brokers = brokers_in_role(context, planned.target)
    numbers = [str(broker.id) for broker in brokers]
    effect = InjectedFault(
        target=f"brokers {join_words(numbers, most=len(numbers))}", details={"broker": ", ".join(numbers)}
    )
    effect.mark_injected()
    for proof in [restart(context, broker) for broker in brokers]:
        effect.add_proof(proof)
    yield effect


def _draw(rng: Random, targets: FaultTargets) -> DrawnFault:
    in_order = rng.sample(targets.brokers, len(targets.brokers))
    return DrawnFault(Target("all", ",".join(map(str, in_order))))


NEMESIS = Nemesis(
    name="rolling-restart",
    summary="shut down each broker in turn with SIGTERM, and start it again when all replicas are in sync",
    past_tense="restarted in turn",
    proves="every process shut down cleanly, and another process is in sync in its place",
    needs=frozenset({Ability.KILL}),
    occupies=uses_brokers,
    hold_s=30.0,
    recovery_s=5.0,
    draw=_draw,
    least_brokers=FAILOVER_BROKERS,
    inject=rolling_restart,
    by_default=False,
)
