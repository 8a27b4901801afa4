"""Give partitions other replicas and other leaders while every broker runs."""

from collections.abc import Mapping, Sequence

from harness.cluster import Cluster
from harness.model.pipeline import TopicPartition
from harness.runner.nemesis import FaultContext

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
