"""Members of a group, each in a thread, while an open transaction has pending offsets of the group."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaProducer
from kafka import TopicPartition as KafkaPartition
from kafka.structs import OffsetAndMetadata

from harness.clients.interface import (
    DEFAULT_GROUP,
    ClientError,
    ConsumerSettings,
    GroupSettings,
    PartitionOffset,
    ProducerSettings,
)
from harness.clients.librdkafka_client import LibrdkafkaClient
from harness.cluster import ClusterSpec
from harness.cluster.local import LocalCluster
from harness.environment.cache import cache_folder
from harness.environment.prepare import prepare
from harness.environment.resources import PortBlock
from harness.environment.versions import DEFAULT_KAFKA
from harness.model.pipeline import TopicPartition
from harness.model.vocabulary import Isolation
from harness.processes.spawn import Supervisor

TIMEOUT_S = 40.0
RECORDS = 10  # in each partition
COMMITTED_OFFSET, OPEN_OFFSET = 5, 7
CLIENT = LibrdkafkaClient()


@contextmanager
def start_brokers(folder: Path) -> Iterator[str]:
    """Start a local cluster. Gives its bootstrap servers."""
    ready = prepare(DEFAULT_KAFKA, "auto", "auto", cache_folder(), print)
    with (
        Supervisor() as supervisor,
        PortBlock(ready.cache) as ports,
        LocalCluster(
            ClusterSpec(brokers=1, endpoints=("observer",)), folder, ready, supervisor, ports.take
        ) as cluster,
    ):
        yield cluster.bootstrap


@dataclass
class Member:
    """A member of the group. It counts its assignments and stores the offsets that it read."""

    settings: ConsumerSettings
    topic: str
    fetches_committed: (
        bool  # it starts at the committed offsets that it fetches; otherwise the client decides
    )
    assignments: int = 0
    read: dict[TopicPartition, list[int]] = field(default_factory=dict)
    ending: threading.Event = field(default_factory=threading.Event)

    def on_assigned(self, partitions: Sequence[TopicPartition]) -> Sequence[PartitionOffset] | None:
        self.assignments += 1
        while self.fetches_committed and not self.ending.is_set():
            try:
                return self.consumer.committed(partitions, 1.0)
            except ClientError:
                continue
        return [] if self.fetches_committed else None

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """Do nothing: the offsets that it read stay."""

    def work(self) -> None:
        self.consumer = CLIENT.consumer(self.settings, [self.topic], self, lambda error: None)
        while not self.ending.is_set():
            for record in self.consumer.poll(100, 0.1):
                self.read.setdefault((record.topic(), record.partition()), []).append(record.offset())
        self.consumer.close()


@contextmanager
def start_member(
    bootstrap: str, group: str, name: str, fetches_committed: bool, kind: GroupSettings = DEFAULT_GROUP
) -> Iterator[Member]:
    settings = ConsumerSettings(bootstrap, group, name, Isolation.READ_COMMITTED, group_settings=kind)
    member = Member(settings, group, fetches_committed)
    thread = threading.Thread(target=member.work)
    thread.start()
    try:
        yield member
    finally:
        member.ending.set()
        thread.join(TIMEOUT_S)
        assert not thread.is_alive()


def create_filled_topic(bootstrap: str, topic: str) -> list[TopicPartition]:
    """Create a topic of two partitions and write `RECORDS` records to each."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(TIMEOUT_S)
    producer = CLIENT.plain_producer(ProducerSettings(bootstrap))
    for n in range(2 * RECORDS):
        assert producer.send(topic, None, b"%d" % n, [], lambda *_: None, partition=n % 2)
    assert producer.flush(TIMEOUT_S) == 0
    return [(topic, 0), (topic, 1)]


@contextmanager
def hold_last_offset_open(
    bootstrap: str, group: str, partitions: Sequence[TopicPartition], *offsets: int
) -> Iterator[KafkaProducer]:
    """Commit these offsets for the group in transactions, and leave the transaction of the last one open.

    The producer is kafka-python's: librdkafka's send_offsets_to_transaction may never return on a cluster that has just
    started, and only the members are under test.
    """
    owner = KafkaProducer(
        bootstrap_servers=bootstrap.split(","),
        transactional_id=f"owner-{group}",
        max_block_ms=int(1000 * TIMEOUT_S),
    )
    try:
        owner.init_transactions()
        for offset in offsets:
            owner.begin_transaction()
            owner.send_offsets_to_transaction(
                {KafkaPartition(*partition): OffsetAndMetadata(offset, "", -1) for partition in partitions},
                group,
            )
            if offset != offsets[-1]:
                owner.commit_transaction()
        yield owner
    finally:
        owner.close(TIMEOUT_S)


def have_read_all(first: Member, second: Member, partitions: Sequence[TopicPartition]) -> Callable[[], bool]:
    """Return a condition: the two members have read every partition to its end."""

    def condition() -> bool:
        ends = [
            member.read.get(partition, [-1])[-1] for partition in partitions for member in (first, second)
        ]
        return ends.count(RECORDS - 1) >= len(partitions)

    return condition


def count_members(bootstrap: str, group: str) -> int:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    return len(admin.describe_consumer_groups([group])[group].result(TIMEOUT_S).members)
