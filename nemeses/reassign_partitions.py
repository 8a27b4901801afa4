"""reassign-partitions: move every partition of a topic away from the broker that leads it, and back.

If there are more brokers than replicas, brokers without a replica get one. They copy the whole log before the
partition moves. Else the partition has one replica less, and the broker copies the whole log when it gets the partition
back (KIP-455).
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from harness.cluster import Ability, PartitionView
from harness.common.errors import WaitTimeout
from harness.results.wording import plural
from harness.runner.nemesis import (
    FaultContext,
    InjectedFault,
    Nemesis,
    PlannedFault,
    Resource,
    TargetMissing,
)
from harness.runner.occupied import uses_also, uses_brokers
from nemeses.aiming.roles import TOPIC, TOPIC_ROLE
from nemeses.aiming.targets import any_topic
from nemeses.effects.brokers import IN_SYNC_TIMEOUT_S
from nemeses.effects.placement import list_brokers, place, replicas_of


@contextmanager
def reassign_partitions(context: FaultContext, planned: PlannedFault) -> Iterator[InjectedFault]:
    """Move the partitions of a topic. The fault acted if the controller shows the new replicas and leaders."""
    cluster, topic = context.cluster, planned.target.name
    before = replicas_of(cluster, topic)
    if not before:
        raise TargetMissing(f"there is no topic {topic}")
    brokers = [broker.id for broker in cluster.brokers if broker.running]
    after = {(topic, n): elsewhere(view, brokers, n) for n, view in cluster.describe(topic).items()}
    effect = InjectedFault(target=f"topic {topic}", details={"topic": topic})
    effect.mark_injected()
    begun_s = time.monotonic()
    try:
        try:
            place(context, after)
        except WaitTimeout as error:
            effect.unmet_goals["moved"] = str(error)
        else:
            first = min(after)
            effect.add_proof(
                f"{plural(len(after), 'partition')} of {topic} left the brokers that led them after "
                f"{time.monotonic() - begun_s:.1f} s: {topic}/{first[1]} has the replicas "
                f"{list_brokers(after[first])}, before: {list_brokers(before[first])}"
            )
        yield effect
    finally:
        place(context, before)
    cluster.await_in_sync(IN_SYNC_TIMEOUT_S, context.topics)
    effect.proof.append(f"back on the first replicas after {time.monotonic() - begun_s:.1f} s")


def elsewhere(view: PartitionView, brokers: Sequence[int], number: int) -> tuple[int, ...]:
    """Return replicas of a partition without the broker that leads it: as many as before, if there are enough brokers.

    Brokers without a replica come first. `number`, the partition's, spreads the leaders over the brokers.
    """
    candidates = [broker for broker in brokers if broker != view.leader]
    candidates = candidates[number % len(candidates) :] + candidates[: number % len(candidates)]
    chosen = sorted(candidates, key=lambda broker: broker in view.replicas)  # a stable sort
    return tuple(chosen[: len(view.replicas)])


NEMESIS = Nemesis(
    name="reassign-partitions",
    summary="move each partition of a topic away from the broker that leads it, and back",
    past_tense="was moved to other brokers",
    proves="the controller shows other replicas and leaders, all in sync",
    needs=frozenset({Ability.OPERATE}),
    occupies=uses_also(Resource.PLACEMENT, uses_brokers),
    hold_s=8.0,
    recovery_s=8.0,
    draw=any_topic,
    roles={TOPIC: TOPIC_ROLE},
    least_brokers=2,
    inject=reassign_partitions,
    by_default=False,
)
