"""Members of a group, each in a thread, where a transaction still holds the group's offsets."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from harness.clients.interface import (
    DEFAULT_GROUP,
    ClientError,
    ConsumerSettings,
    GroupSettings,
    PartitionOffset,
    ProducerSettings,
    TransactionalClient,
)
from harness.clients.librdkafka_client import LibrdkafkaClient
from harness.cluster import ClusterSpec
from harness.cluster.local import LocalCluster
from harness.environment.cache import cache_folder
from harness.environment.ports import PortBlock
from harness.environment.prepare import prepare
from harness.model.pipeline import TopicPartition
from harness.model.vocabulary import Isolation
from harness.processes.spawn import Supervisor

WITHIN_S = 40.0
RECORDS = 10  # of each partition
COMMITTED, HELD = 5, 7
CLIENT = LibrdkafkaClient()


@contextmanager
def brokers(folder: Path) -> Iterator[str]:
    """A cluster to join, by its bootstrap servers."""
    ready = prepare("4.3.1", "auto", "auto", cache_folder(), print)
    with (
        Supervisor() as supervisor,
        PortBlock(ready.cache) as ports,
        LocalCluster(ClusterSpec(endpoints=("observer",)), folder, ready, supervisor, ports.take) as cluster,
    ):
        yield cluster.bootstrap


@dataclass
class Member:
    """A member of the group, in a thread of its own: it notes how often it was given partitions, and what it read."""

    settings: ConsumerSettings
    topic: str
    asks: bool  # where the group stands, and begins there; otherwise the client decides
    gains: int = 0
    read: dict[TopicPartition, list[int]] = field(default_factory=dict)
    ending: threading.Event = field(default_factory=threading.Event)

    def on_assigned(self, places: Sequence[TopicPartition]) -> Sequence[PartitionOffset] | None:
        self.gains += 1
        while self.asks and not self.ending.is_set():
            try:
                return self.consumer.committed(places, 1.0)
            except ClientError:
                continue
        return [] if self.asks else None

    def on_revoked(self, places: Sequence[TopicPartition]) -> None:
        """What it has read stays."""

    def work(self) -> None:
        self.consumer = CLIENT.consumer(self.settings, [self.topic], self, lambda error: None)
        while not self.ending.is_set():
            for one in self.consumer.poll(100, 0.1):
                self.read.setdefault((one.topic(), one.partition()), []).append(one.offset())
        self.consumer.close()


@contextmanager
def member(
    bootstrap: str, group: str, name: str, asks: bool, kind: GroupSettings = DEFAULT_GROUP
) -> Iterator[Member]:
    settings = ConsumerSettings(bootstrap, group, name, Isolation.READ_COMMITTED, group_settings=kind)
    one = Member(settings, group, asks)
    thread = threading.Thread(target=one.work)
    thread.start()
    try:
        yield one
    finally:
        one.ending.set()
        thread.join(WITHIN_S)
        assert not thread.is_alive()


def filled(bootstrap: str, topic: str) -> list[TopicPartition]:
    """A topic of two partitions, with records."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 2, 3)])[topic].result(WITHIN_S)
    producer = CLIENT.plain_producer(ProducerSettings(bootstrap))
    for n in range(2 * RECORDS):
        assert producer.send(topic, None, b"%d" % n, [], lambda *_: None, partition=n % 2)
    assert producer.flush(WITHIN_S) == 0
    return [(topic, 0), (topic, 1)]


def holding(
    bootstrap: str, group: str, places: Sequence[TopicPartition], *offsets: int
) -> TransactionalClient:
    """A producer that has committed all these offsets for the group but the last, which its open transaction holds."""
    owner = CLIENT.producer(ProducerSettings(bootstrap), f"owner-{group}")
    owner.init(WITHIN_S)
    unsubscribed_consumer = CLIENT.unsubscribed_consumer(
        ConsumerSettings(bootstrap, group, "stranger", Isolation.READ_COMMITTED)
    )
    for offset in offsets:
        owner.begin()
        owner.send_offsets(
            [PartitionOffset(*place, offset) for place in places],
            unsubscribed_consumer.membership(),
            WITHIN_S,
        )
        if offset != offsets[-1]:
            owner.commit(WITHIN_S)
    return owner


def all_read(first: Member, second: Member, places: Sequence[TopicPartition]) -> Callable[[], bool]:
    def read() -> bool:
        ends = [one.read.get(place, [-1])[-1] for place in places for one in (first, second)]
        return ends.count(RECORDS - 1) >= len(places)

    return read


def members(bootstrap: str, group: str) -> int:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    return len(admin.describe_consumer_groups([group])[group].result(WITHIN_S).members)
