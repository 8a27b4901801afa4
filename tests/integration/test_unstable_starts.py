"""Where a partition begins whose committed offset a transaction still holds, while the group rebalances again.

The broker answers UNSTABLE_OFFSET_COMMIT until the transaction has ended (KIP-447). A member whose assignment changes
while it asks must still begin where the group stands: librdkafka, left alone, begins at the beginning.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from harness.clients.interface import (
    DEFAULT_GROUP,
    ClientError,
    ConsumerSettings,
    GroupSettings,
    Position,
    ProducerSettings,
)
from harness.clients.librdkafka_client import LibrdkafkaClient
from harness.cluster import ClusterSpec
from harness.cluster.local import LocalCluster
from harness.environment.cache import cache_folder
from harness.environment.ports import PortBlock
from harness.environment.prepare import prepare
from harness.history import Isolation
from harness.pipeline import Place
from harness.processes.spawn import Supervisor
from harness.waiting import wait_for

WITHIN_S = 40.0
RECORDS = 10  # of each partition
COMMITTED, HELD = 5, 7
CLIENT = LibrdkafkaClient()


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    ready = prepare("4.3.1", "auto", "auto", cache_folder(), print)
    folder = tmp_path_factory.mktemp("cluster")
    with (
        Supervisor() as supervisor,
        PortBlock(ready.cache) as ports,
        LocalCluster(ClusterSpec(slots=("observer",)), folder, ready, supervisor, ports.take) as cluster,
    ):
        yield cluster.bootstrap


@dataclass
class Member:
    """A member of the group, in a thread of its own: it notes how often it was given partitions, and what it read."""

    settings: ConsumerSettings
    topic: str
    asks: bool  # where the group stands, and begins there; otherwise the client decides
    gains: int = 0
    read: dict[Place, list[int]] = field(default_factory=dict)
    ending: threading.Event = field(default_factory=threading.Event)

    def gained(self, places: Sequence[Place]) -> Sequence[Position] | None:
        self.gains += 1
        while self.asks and not self.ending.is_set():
            try:
                return self.consumer.committed(places, 1.0)
            except ClientError:
                continue
        return [] if self.asks else None

    def lost(self, places: Sequence[Place]) -> None:
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
    settings = ConsumerSettings(bootstrap, group, name, Isolation.READ_COMMITTED, as_member=kind)
    one = Member(settings, group, asks)
    thread = threading.Thread(target=one.work)
    thread.start()
    try:
        yield one
    finally:
        one.ending.set()
        thread.join(WITHIN_S)
        assert not thread.is_alive()


def _filled(bootstrap: str, topic: str) -> list[Place]:
    """A topic of two partitions, with records."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 2, 3)])[topic].result(WITHIN_S)
    producer = CLIENT.plain_producer(ProducerSettings(bootstrap))
    for n in range(2 * RECORDS):
        assert producer.send(topic, None, b"%d" % n, [], lambda *_: None, partition=n % 2)
    assert producer.flush(WITHIN_S) == 0
    return [(topic, 0), (topic, 1)]


@pytest.mark.parametrize("asks", [True, False], ids=["the worker asks", "the client decides"])
def test_a_partition_that_is_assigned_again_while_its_offset_is_unstable(bootstrap: str, asks: bool) -> None:
    group = "asks" if asks else "decides"
    places = _filled(bootstrap, group)
    owner = CLIENT.producer(ProducerSettings(bootstrap), f"owner-{group}")
    owner.init(WITHIN_S)
    stranger = CLIENT.stranger(ConsumerSettings(bootstrap, group, "stranger", Isolation.READ_COMMITTED))
    for offset in (COMMITTED, HELD):
        owner.begin()
        owner.send_offsets([Position(*place, offset) for place in places], stranger.membership(), WITHIN_S)
        if offset == COMMITTED:
            owner.commit(WITHIN_S)
    with member(bootstrap, group, "first", asks) as first:
        wait_for(lambda: first.gains > 0, "the first member to be given partitions", WITHIN_S)
        with member(bootstrap, group, "second", asks) as second:
            if asks:  # in its callback it waits for the transaction, and the second member waits for it
                wait_for(lambda: _members(bootstrap, group) == 2, "the second member to join", WITHIN_S)
                assert not first.read and not second.read
            else:
                wait_for(
                    lambda: first.gains > 1 and second.gains > 0, "the partitions to be shared", WITHIN_S
                )
                wait_for(lambda: bool(first.read), "what the first member reads", WITHIN_S)
            owner.commit(WITHIN_S)
            if asks:  # else the second member was once seen to read nothing for 40 s
                wait_for(_all_read(first, second, places), "every partition to be read to its end", WITHIN_S)
    begun = {place: read[0] for one in (first, second) for place, read in one.read.items()}
    if asks:
        assert begun == dict.fromkeys(places, HELD)
    else:  # should this fail, librdkafka has been mended: `Worker.gained` may then leave the start to it
        assert min(begun.values()) == 0


@pytest.mark.parametrize(
    ("group", "kind"),
    [
        ("eager", GroupSettings(assignor="eager")),
        ("cooperative", GroupSettings(assignor="cooperative")),
        ("consumer", GroupSettings(protocol="consumer")),
    ],
)
def test_a_member_of_each_kind_of_group_begins_where_it_is_told(
    bootstrap: str, group: str, kind: GroupSettings
) -> None:
    places = _filled(bootstrap, group)
    owner = CLIENT.producer(ProducerSettings(bootstrap), f"owner-{group}")
    owner.init(WITHIN_S)
    owner.begin()
    stranger = CLIENT.stranger(ConsumerSettings(bootstrap, group, "stranger", Isolation.READ_COMMITTED))
    owner.send_offsets([Position(*place, COMMITTED) for place in places], stranger.membership(), WITHIN_S)
    owner.commit(WITHIN_S)
    with (
        member(bootstrap, group, "first", True, kind) as first,
        member(bootstrap, group, "second", True, kind) as second,
    ):
        wait_for(_all_read(first, second, places), "every partition to be read to its end", WITHIN_S)
    assert {min(one.read[place]) for one in (first, second) for place in one.read} == {COMMITTED}


def _all_read(first: Member, second: Member, places: Sequence[Place]) -> Callable[[], bool]:
    def read() -> bool:
        ends = [one.read.get(place, [-1])[-1] for place in places for one in (first, second)]
        return ends.count(RECORDS - 1) >= len(places)

    return read


def _members(bootstrap: str, group: str) -> int:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    return len(admin.describe_consumer_groups([group])[group].result(WITHIN_S).members)
