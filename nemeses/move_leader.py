"""move-leader: let another replica lead a partition, and move the leadership back. No broker ends.

The replicas of the partition get another order, and the first of them is elected (KIP-455, KIP-460). Aimed at a
coordinator, the fault moves the leader of its partition of `__transaction_state` or `__consumer_offsets`: the next
coordinator loads the state from the log while the one before it still runs, and can still write markers.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from random import Random

from harness.cluster import Ability, Broker
from harness.runner.nemesis import (
    DrawnFault,
    FaultContext,
    FaultTargets,
    InjectedFault,
    Nemesis,
    PlannedFault,
    Resource,
    TargetMissing,
)
from harness.runner.occupied import uses_also, uses_brokers
from nemeses.aiming.roles import ROLES
from nemeses.aiming.targets import any_leader, choose, partition_of_role
from nemeses.effects.brokers import inject_on_role
from nemeses.effects.placement import Replicas, list_brokers, place

GOAL = "no-broker-ended"


@contextmanager
def move_leader(context: FaultContext, planned: PlannedFault) -> Iterator[InjectedFault]:
    """Move the leader of a partition. The fault acted if another broker has the role, and no broker ended."""
    cluster = context.cluster
    moved: Replicas = {}
    pids = _pids(cluster.brokers)

    def move(broker: Broker) -> str:
        nonlocal moved
        topic, number = partition = partition_of_role(cluster, planned.target)
        view = cluster.describe(topic)[number]
        heir = next(
            (replica for replica in view.replicas if replica in view.isr and replica != broker.id), None
        )
        if heir is None:
            raise TargetMissing(
                f"{topic}/{number} has no other replica in sync than that of broker {broker.id}"
            )
        others = [replica for replica in view.replicas if replica not in (heir, broker.id)]
        order = (heir, *others, broker.id)
        moved = {partition: view.replicas}
        cluster.reassign({partition: order})
        cluster.elect_preferred([partition])
        return (
            f"{topic}/{number} got its replicas in the order {list_brokers(order)}, before: "
            f"{list_brokers(view.replicas)}"
        )

    def move_back(_: Broker) -> None:
        if moved:
            place(context, moved)

    with inject_on_role(context, planned, move, move_back) as effect:
        if _pids(cluster.brokers) == pids:
            effect.proof.append("no broker ended")
        else:  # the role may have moved for that reason
            effect.acted = False
            effect.unmet_goals[GOAL] = "a broker ended while the leadership moved"
        yield effect


def _pids(brokers: Sequence[Broker]) -> dict[int, int | None]:
    return {broker.id: broker.pid for broker in brokers if broker.running}


def _draw(rng: Random, targets: FaultTargets) -> DrawnFault:
    replicated = [
        partition for partition in targets.topic_partitions if targets.replicas.get(partition[0], 2) > 1
    ]
    _ = choose(rng, replicated, "a topic with two replicas or more")
    return any_leader(rng, replace(targets, topic_partitions=tuple(replicated)))


NEMESIS = Nemesis(
    name="move-leader",
    summary="let another replica lead a partition, and move the leadership back; no broker ends",
    past_tense="handed over its leadership",
    proves="another broker has the role, and no broker ended",
    needs=frozenset({Ability.OPERATE}),
    occupies=uses_also(Resource.PLACEMENT, uses_brokers),
    hold_s=5.0,
    recovery_s=5.0,
    draw=_draw,
    aimable=True,
    roles={role: ROLES[role] for role in ("leader", "txn-coordinator", "group-coordinator")},
    least_brokers=2,
    inject=move_leader,
    by_default=False,
)
