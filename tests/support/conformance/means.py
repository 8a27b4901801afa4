"""Helpers of the conformance suite: write to a cluster, read from it, and query its state."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass

from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from harness.clients import librdkafka
from harness.clients.client_properties import librdkafka_properties
from harness.clients.interface import ProducerSettings
from harness.cluster import Broker, Cluster, PartitionView
from harness.common.errors import EnvironmentFailure
from harness.common.waiting import wait_for
from harness.model.vocabulary import Isolation
from harness.wire.protocol import Address
from harness.wire.security import PLAINTEXT, Security

TOPIC = "orders"
SMALL = "small"
WITNESSED = "seen"
GROUP = "group"
ENDPOINT = "feed"
DECODED_ENDPOINT = "w0"
"""The endpoint whose links pass through the protocol proxy, if the cluster can have it."""
MOVE_TIMEOUT_S = 40.0  # a failover takes 6 to 9 s; a busy machine, longer
SYNC_TIMEOUT_S = 60.0
TIMEOUT_S = 30.0
QUIET_S = 2.0
"""For so long, no bytes may pass a link that is cut, while other links carry traffic."""
INTERNAL_TOPICS = ("__transaction_state", "__consumer_offsets")


@dataclass(frozen=True)
class ClusterUser:
    """A user of a cluster: its only user, or one of several, whose names begin with a tag."""

    tag: str = ""
    shared: bool = False  # whether the cluster has other users
    security: Security = PLAINTEXT

    def name(self, name: str) -> str:
        """The name of a topic, group or transactional id with the user's tag."""
        return f"{self.tag}{name}"

    def address(self, cluster: Cluster) -> Address:
        """The address of a broker's listener for this user."""
        host, _, port = cluster.bootstrap.partition(",")[0].rpartition(":")
        return Address(host, int(port), self.security)


ONLY_USER = ClusterUser()


@contextmanager
def write_load(cluster: Cluster, user: ClusterUser = ONLY_USER) -> Iterator[Mapping[int, float]]:
    """Write to every partition until the context ends. Gives the time of the last acknowledgement by partition.

    Without new records, a follower never falls behind and so never leaves the ISR.
    """
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_for(ENDPOINT), "acks": "all", "log_level": 0,
         "socket.timeout.ms": 10_000, "reconnect.backoff.max.ms": 500, **librdkafka_properties()}
    )  # fmt: skip
    topic = user.name(TOPIC)
    last: dict[int, float] = {}
    over = threading.Event()

    def acknowledged(error: object, message: Message) -> None:
        if error is None:
            last[message.partition()] = time.monotonic()

    def write() -> None:
        while not over.wait(0.05):  # slowly, so that the brokers have time for the test
            for partition in range(6):
                producer.produce(topic, b"x", partition=partition, on_delivery=acknowledged)
            producer.poll(0)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        wait_for(lambda: len(last) == 6, "every partition to take a record", 30)
        yield last
    finally:
        over.set()
        thread.join()
        producer.flush(30)


def transactional_producer(
    cluster: Cluster, id_: str, compression: str = "none", endpoint: str = ENDPOINT
) -> Producer:
    """An initialised transactional producer that connects through the endpoint."""
    settings = ProducerSettings(cluster.bootstrap_for(endpoint), compression=compression)
    producer = Producer(librdkafka.transactional_producer(settings, id_))
    producer.init_transactions(TIMEOUT_S)
    return producer


def read_values(
    cluster: Cluster, topic: str, number: int, isolation: Isolation, start: int = 0
) -> list[bytes]:
    """The values from an offset to the last stable offset, read through the endpoint."""
    return [value for _, _, value in read_partition(cluster, topic, number, isolation, start)]


def read_partition(
    cluster: Cluster, topic: str, number: int, isolation: Isolation, start: int = 0
) -> list[tuple[int, bytes | None, bytes]]:
    """Offset, key and value of each record from an offset to the last stable offset, read through the endpoint."""
    records: list[tuple[int, bytes | None, bytes]] = []
    end = cluster.log_offsets([topic])[topic, number][1]
    with closing(make_consumer(cluster, isolation)) as consumer:
        consumer.assign([TopicPartition(topic, number, start)])

        def at_the_end() -> bool:
            for record in consumer.consume(1_000, 0.2):
                assert record.error() is None, record.error()
                records.append((record.offset(), record.key(), record.value()))
            (position,) = consumer.position([TopicPartition(topic, number)])
            return bool(position.offset >= end)

        wait_for(at_the_end, f"{topic}/{number} to be read to its end", TIMEOUT_S)
    return records


def make_consumer(
    cluster: Cluster, isolation: Isolation, group: str | None = None, endpoint: str = ENDPOINT
) -> Consumer:
    """A consumer that connects through the endpoint."""
    settings = librdkafka.reader(cluster.bootstrap_for(endpoint), "conformance", isolation)
    return Consumer(settings | ({"group.id": group} if group else {}))


def cluster_metadata(cluster: Cluster):  # type: ignore[no-untyped-def]
    """The metadata that a client of the endpoint gets from the brokers."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_for(ENDPOINT), **librdkafka_properties()})
    return admin.list_topics(timeout=TIMEOUT_S)


def transaction_state(cluster: Cluster, id_: str) -> str | None:
    transaction = cluster.describe_transaction(id_)
    return transaction.state if transaction else None


def high_watermark(cluster: Cluster, topic: str, number: int) -> int:
    return cluster.log_offsets([topic])[topic, number][2]


def high_watermarks(cluster: Cluster, topic: str, numbers: Sequence[int]) -> dict[int, int]:
    ends = cluster.log_offsets([topic])
    return {number: ends[topic, number][2] for number in numbers}


def is_stable(cluster: Cluster, topic: str) -> bool:
    return all(stable == high for _, stable, high in cluster.log_offsets([topic]).values())


def becomes_true(condition: Callable[[], bool], within_s: float) -> bool:
    """Whether the condition becomes true within so many seconds."""
    try:
        return wait_for(condition, "it", within_s)
    except EnvironmentFailure:
        return False


def broker_of(cluster: Cluster, id_: int) -> Broker:
    return next(broker for broker in cluster.brokers if broker.id == id_)


def has_moved_leaders(cluster: Cluster, broker: Broker, user: ClusterUser) -> bool:
    """Whether every partition has a leader that is not this broker."""
    views: list[PartitionView] = []
    for topic in (user.name(TOPIC), *INTERNAL_TOPICS):
        views += cluster.describe(topic).values()
    return all(view.leader not in (-1, broker.id) for view in views)
