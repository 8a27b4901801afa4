"""How checks of a cluster write, read, and see what it says of itself."""

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
SEEN = "seen"
GROUP = "group"
ENDPOINT = "feed"
MOVE_TIMEOUT_S = 40.0  # a failover takes 6 to 9 s; a busy machine, longer
SYNC_TIMEOUT_S = 60.0
WITHIN_S = 30.0
STILL_S = 2.0
"""For so long nothing may pass a link that is cut, while other links carry."""
INTERNAL = ("__transaction_state", "__consumer_offsets")


@dataclass(frozen=True)
class Footing:
    """How one stands on a cluster: as its only user, or as a guest whose names bear a tag."""

    tag: str = ""
    guest: bool = False
    security: Security = PLAINTEXT

    def name(self, name: str) -> str:
        """As this user may call a topic, a group or a transactional id."""
        return f"{self.tag}{name}"

    def address(self, cluster: Cluster) -> Address:
        """Where one of its brokers listens to this user."""
        host, _, port = cluster.bootstrap.partition(",")[0].rpartition(":")
        return Address(host, int(port), self.security)


HOST = Footing()


@contextmanager
def load(cluster: Cluster, footing: Footing = HOST) -> Iterator[Mapping[int, float]]:
    """Write to every partition meanwhile; gives the time of the last acknowledgement of each.

    (A follower that lags behind nothing never leaves the ISR.)
    """
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_for(ENDPOINT), "acks": "all", "log_level": 0,
         "socket.timeout.ms": 10_000, "reconnect.backoff.max.ms": 500, **librdkafka_properties()}
    )  # fmt: skip
    topic = footing.name(TOPIC)
    last: dict[int, float] = {}
    over = threading.Event()

    def acknowledged(error: object, message: Message) -> None:
        if error is None:
            last[message.partition()] = time.monotonic()

    def write() -> None:
        while not over.wait(0.05):  # a pace that leaves the brokers time for what is tested
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


def producing(cluster: Cluster, id_: str, compression: str = "none") -> Producer:
    """A transactional producer that has been initialised, through the endpoint."""
    settings = ProducerSettings(cluster.bootstrap_for(ENDPOINT), compression=compression)
    producer = Producer(librdkafka.transactional_producer(settings, id_))
    producer.init_transactions(WITHIN_S)
    return producer


def read(cluster: Cluster, topic: str, number: int, isolation: Isolation, start: int = 0) -> list[bytes]:
    """The values that a consumer is given from an offset to the end, through the endpoint."""
    return [value for _, _, value in records(cluster, topic, number, isolation, start)]


def records(
    cluster: Cluster, topic: str, number: int, isolation: Isolation, start: int = 0
) -> list[tuple[int, bytes | None, bytes]]:
    """Offset, key and value of what a consumer is given, from an offset to the end of what is stable."""
    found: list[tuple[int, bytes | None, bytes]] = []
    end = cluster.log_offsets([topic])[topic, number][1]
    with closing(reader(cluster, isolation)) as consumer:
        consumer.assign([TopicPartition(topic, number, start)])

        def at_the_end() -> bool:
            for one in consumer.consume(1_000, 0.2):
                assert one.error() is None, one.error()
                found.append((one.offset(), one.key(), one.value()))
            (place,) = consumer.position([TopicPartition(topic, number)])
            return bool(place.offset >= end)

        wait_for(at_the_end, f"{topic}/{number} to be read to its end", WITHIN_S)
    return found


def reader(cluster: Cluster, isolation: Isolation, group: str | None = None) -> Consumer:
    """A consumer through the endpoint."""
    settings = librdkafka.reader(cluster.bootstrap_for(ENDPOINT), "conformance", isolation)
    return Consumer(settings | ({"group.id": group} if group else {}))


def listed(cluster: Cluster):  # type: ignore[no-untyped-def]
    """What a client of the endpoint is told of the brokers."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_for(ENDPOINT), **librdkafka_properties()})
    return admin.list_topics(timeout=WITHIN_S)


def state(cluster: Cluster, id_: str) -> str | None:
    told = cluster.describe_transaction(id_)
    return told.state if told else None


def high(cluster: Cluster, topic: str, number: int) -> int:
    return cluster.log_offsets([topic])[topic, number][2]


def highs(cluster: Cluster, topic: str, numbers: Sequence[int]) -> dict[int, int]:
    ends = cluster.log_offsets([topic])
    return {number: ends[topic, number][2] for number in numbers}


def at_rest(cluster: Cluster, topic: str) -> bool:
    return all(stable == high for _, stable, high in cluster.log_offsets([topic]).values())


def comes_true(question: Callable[[], bool], within_s: float) -> bool:
    """Whether it does, in so many seconds."""
    try:
        return wait_for(question, "it", within_s)
    except EnvironmentFailure:
        return False


def of(cluster: Cluster, id_: int) -> Broker:
    return next(broker for broker in cluster.brokers if broker.id == id_)


def moved_from(cluster: Cluster, broker: Broker, footing: Footing) -> bool:
    everything: list[PartitionView] = []
    for topic in (footing.name(TOPIC), *INTERNAL):
        everything += cluster.describe(topic).values()
    return all(view.leader not in (-1, broker.id) for view in everything)
