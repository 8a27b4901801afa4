"""Faults that give partitions other replicas or other leaders while every broker runs: a row of `NEMESES` each."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from random import Random

from harness.cluster import Ability, Broker, Cluster, PartitionView
from harness.common.errors import WaitTimeout
from harness.common.wording import plural
from harness.model.pipeline import TopicPartition
from harness.runner.nemesis import (
    DrawnFault,
    FaultContext,
    FaultTargets,
    InjectedFault,
    Nemesis,
    PlannedFault,
    Resource,
    TargetMissing,
    uses_also,
    uses_brokers,
)
from nemeses.aiming.roles import ROLES, TOPIC, TOPIC_ROLE
from nemeses.aiming.targets import any_leader, any_topic, choose, partition_of_role
from nemeses.effects.brokers import IN_SYNC_TIMEOUT_S, inject_on_role

NO_BROKER_ENDED = "no-broker-ended"
PLACE_TIMEOUT_S = 90.0
Replicas = Mapping[TopicPartition, tuple[int, ...]]
"""The replicas of partitions. The first one is preferred as leader."""


def replicas_of(cluster: Cluster, topic: str) -> dict[TopicPartition, tuple[int, ...]]:
    """Return the replicas of each partition of a topic."""
    return {(topic, number): view.replicas for number, view in cluster.describe(topic).items()}


def place(context: FaultContext, replicas: Replicas) -> None:
    """Give partitions these replicas, and wait until each first replica leads its partition. Raises `WaitTimeout`.

    A new replica is in sync when Kafka shows it instead of an old one.
    """
    cluster = context.cluster
    topics = sorted({topic for topic, _ in replicas})
    names = ", ".join(topics)
    cluster.reassign(replicas)

    def describe() -> dict[TopicPartition, tuple[tuple[int, ...], int]]:
        views = {(topic, n): view for topic in topics for n, view in cluster.describe(topic).items()}
        return {partition: (views[partition].replicas, views[partition].leader) for partition in replicas}

    context.wait_for(
        lambda: all(describe()[partition][0] == brokers for partition, brokers in replicas.items()),
        f"{names} to have the new replicas",
        PLACE_TIMEOUT_S,
        every_s=0.2,
        last_seen=describe,
    )

    def led_by_first() -> bool:
        now = describe()
        others = [
            partition for partition, brokers in replicas.items() if now[partition] != (brokers, brokers[0])
        ]
        if others:
            # Each time, because a first replica may be down now, or may end after its election.
            cluster.elect_preferred(others)
        return not others

    context.wait_for(
        led_by_first,
        f"{names} to be led by the first of the new replicas",
        PLACE_TIMEOUT_S,
        every_s=0.5,
        last_seen=describe,
    )


def list_brokers(brokers: Sequence[int]) -> str:
    """Name brokers in their order: `2, 3, 1`."""
    return ", ".join(map(str, brokers))


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
            effect.unmet_goals[NO_BROKER_ENDED] = "a broker ended while the leadership moved"
        yield effect


def _pids(brokers: Sequence[Broker]) -> dict[int, int | None]:
    return {broker.id: broker.pid for broker in brokers if broker.running}


def _replicated(rng: Random, targets: FaultTargets) -> DrawnFault:
    replicated = [
        partition for partition in targets.topic_partitions if targets.replicas.get(partition[0], 2) > 1
    ]
    _ = choose(rng, replicated, "a topic with two replicas or more")
    return any_leader(rng, replace(targets, topic_partitions=tuple(replicated)))


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


NEMESES: Sequence[Nemesis] = (
    # The replicas of the partition get another order, and the first of them is elected (KIP-455, KIP-460). Aimed at a
    # coordinator, the fault moves the leader of its partition of `__transaction_state` or `__consumer_offsets`: the
    # next coordinator loads the state from the log while the one before it still runs, and can still write markers.
    Nemesis(
        name="move-leader",
        summary="let another replica lead a partition, and move the leadership back; no broker ends",
        past_tense="handed over its leadership",
        proves="another broker has the role, and no broker ended",
        needs=frozenset({Ability.OPERATE}),
        occupies=uses_also(Resource.PLACEMENT, uses_brokers),
        hold_s=5.0,
        recovery_s=5.0,
        draw=_replicated,
        aimable=True,
        roles={role: ROLES[role] for role in ("leader", "txn-coordinator", "group-coordinator")},
        least_brokers=2,
        inject=move_leader,
        by_default=False,
        sources=("KIP-455", "KIP-460"),
    ),
    # If there are more brokers than replicas, brokers without a replica get one. They copy the whole log before the
    # partition moves. Else the partition has one replica less, and the broker copies the whole log when it gets the
    # partition back (KIP-455).
    Nemesis(
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
        sources=("KIP-455",),
    ),
)
