"""kill-leader-ahead: kill a partition's leader while it has records that no follower has fetched.

The followers are cut off from the leader. The leader still accepts records, and is then killed with SIGKILL. All
followers still count as in sync, so one of them becomes the leader, without these records. With acks=all none of these
records was acknowledged. With acks=1 they were acknowledged, and they are lost.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from random import Random

from harness.cluster import Ability, Broker
from harness.common.errors import FaultFailed, WaitTimeout
from harness.model.pipeline import TopicPartition
from harness.network import Cut, peer_link
from harness.runner.nemesis import (
    DrawnFault,
    FaultContext,
    FaultTargets,
    InjectedFault,
    Nemesis,
    PlannedFault,
    Target,
    uses_brokers_and_workers,
)
from nemeses.aiming.roles import FAILOVER_BROKERS, await_broker_in_role, await_failover, other_broker
from nemeses.aiming.targets import broker_in_role, choose
from nemeses.effects.brokers import IN_SYNC_TIMEOUT_S

AHEAD_TIMEOUT_S = 8.0
"""It is much shorter than the time after which a follower that does not fetch is out of sync."""


def draw(rng: Random, targets: FaultTargets) -> DrawnFault:
    """Draw the leader of a partition that workers write."""
    topic, partition = choose(rng, targets.written, "a topic that workers write")
    return DrawnFault(Target("leader", f"{topic}/{partition}"))


@contextmanager
def kill_leader_ahead(context: FaultContext, planned: PlannedFault) -> Iterator[InjectedFault]:
    """Cut the followers off, and kill the leader.

    The fault acted if the leader's log was longer than every follower's when it was killed, and if another broker
    leads the partition now.
    """
    cluster = context.cluster
    target = _without_coordinators(context, planned.target)
    find_leader = broker_in_role(cluster, target)
    first = await_broker_in_role(context, find_leader, target)
    leader, followers = _leader_and_followers(cluster.brokers, first, target)
    topic, _, number = target.name.rpartition("/")
    effect = InjectedFault(target=f"broker {first}, leader of {target.name}", short_target=f"broker {first}")
    links = [peer_link(follower.id, first, "int") for follower in followers]
    effect.mark_injected()
    try:
        with cluster.network.impose(links, Cut()):
            try:
                ahead_bytes = _await_ahead(context, leader, followers, (topic, int(number)))
            except WaitTimeout as error:  # no record was written to the partition
                effect.unmet_goals["leader-ahead"] = str(error)
            else:
                ending = leader.kill()
        if not effect.unmet_goals:
            find_successor = partial(other_broker, find_leader, first)
            successor = await_failover(
                context, effect, ending, find_successor, f"{target} to leave broker {first}"
            )
            if successor is not None:
                effect.add_proof(
                    f"its log was {ahead_bytes} bytes longer than every follower's; {ending}; "
                    f"broker {successor} leads now"
                )
        yield effect
    finally:
        leader.start()
    cluster.await_in_sync(IN_SYNC_TIMEOUT_S, context.topics)


def _without_coordinators(context: FaultContext, target: Target) -> Target:
    """Return the next partition of the topic whose leader does not coordinate a group of the topic's writers.

    A coordinator that is cut off from its followers cannot commit offsets. Workers that wait for this commit write
    nothing, so the log of the leader would not grow. If there is no such partition, return the drawn one.
    """
    topic, _, number = target.name.rpartition("/")
    groups = {stage.group for stage in context.stages if topic in stage.writes and stage.group}
    coordinators = {context.cluster.group_coordinator(group) for group in groups}
    views = context.cluster.describe(topic)
    in_turn = sorted(views, key=lambda partition: (partition - int(number)) % len(views))
    suitable = (partition for partition in in_turn if views[partition].leader not in coordinators)
    return Target(target.role, f"{topic}/{next(suitable, int(number))}")


def _leader_and_followers(
    brokers: Sequence[Broker], first: int, target: Target
) -> tuple[Broker, list[Broker]]:
    leader = next((broker for broker in brokers if broker.id == first), None)
    if leader is None:
        raise FaultFailed(f"{target} is broker {first}, which is not in this cluster")
    return leader, [broker for broker in brokers if broker is not leader]


def _await_ahead(
    context: FaultContext, leader: Broker, followers: list[Broker], topic_partition: TopicPartition
) -> int:
    """Wait until the leader's log is longer than every follower's in two successive measurements.

    At the second one, the writers with acks=1 have their acknowledgements. Return the smaller difference, in bytes.
    Raises `WaitTimeout`.
    """
    difference = 0

    def is_ahead() -> int | None:
        nonlocal difference
        longest = max((follower.log_bytes(topic_partition) for follower in followers), default=0)
        before, difference = difference, leader.log_bytes(topic_partition) - longest
        return min(before, difference) if before > 0 and difference > 0 else None

    return context.wait_for(
        is_ahead,
        f"records in {topic_partition[0]}/{topic_partition[1]} that no follower has",
        AHEAD_TIMEOUT_S,
        every_s=0.2,
        last_seen=lambda: f"{difference} bytes",
    )


NEMESIS = Nemesis(
    name="kill-leader-ahead",
    summary="kill -9 a partition's leader while it has records that no follower has fetched",
    past_tense="was killed ahead of its followers",
    proves="the leader's log was longer than every follower's, and another broker leads the partition",
    needs=frozenset({Ability.KILL, Ability.PEER_LINKS, Ability.SEGMENTS, Cut}),
    occupies=uses_brokers_and_workers,  # its workers must write while the followers are cut off
    hold_s=4.0,
    recovery_s=12.0,
    draw=draw,
    least_brokers=FAILOVER_BROKERS,
    inject=kill_leader_ahead,
    by_default=False,
)
