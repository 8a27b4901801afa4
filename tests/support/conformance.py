"""What every kind of cluster must do, asked through the interface alone."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka.protocol.metadata import FindCoordinatorRequest

from harness.clients import librdkafka
from harness.clients.client_properties import of_librdkafka
from harness.clients.interface import ProducerSettings
from harness.clients.security import PLAINTEXT, Security
from harness.clients.wire import Address, ask
from harness.cluster import Ability, Broker, Cluster, PartitionView
from harness.errors import EnvironmentFailure, FaultFailed
from harness.history import Isolation
from harness.network import LinkEffect
from harness.network.links import around, client_link, peer_link
from harness.pipeline import TopicFacts
from harness.waiting import wait_for
from tests.support.conformance_witness import check_witness_of

TOPIC = "orders"
SMALL = "small"
SEEN = "seen"
GROUP = "group"
SLOT = "feed"
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


def check_cluster(make: Callable[[], AbstractContextManager[Cluster]]) -> None:
    """Start one, and hold it to its interface; every check leaves it as it found it."""
    with make() as cluster:
        check_every_broker_is_registered(cluster)
        check_topics_are_in_sync_when_they_are_created(cluster)
        check_coordinators_are_those_that_the_brokers_name(cluster)
        check_offsets_are_told(cluster)
        check_requests_are_recorded_and_then_no_more(cluster)
        for check in OF_BROKERS:
            with load(cluster):
                check(cluster)
                cluster.await_in_sync(SYNC_TIMEOUT_S)


def check_every_broker_is_registered(cluster: Cluster, footing: Footing = HOST) -> None:
    assert cluster.out_of_sync() == []
    known = set(_listed(cluster).brokers)
    assert known
    if cluster.brokers:
        assert known == {broker.id for broker in cluster.brokers}
        assert all(broker.running and psutil.pid_exists(broker.pid) for broker in cluster.brokers)
    assert cluster.controller() in known


def check_topics_are_in_sync_when_they_are_created(cluster: Cluster, footing: Footing = HOST) -> None:
    topic = footing.name(TOPIC)
    wanted = [TopicFacts(topic, 6), TopicFacts(footing.name(SMALL), 1), TopicFacts(footing.name(SEEN), 3)]
    cluster.create_topics(wanted, 60)
    assert cluster.out_of_sync() == []
    views = cluster.describe(topic)
    assert sorted(views) == list(range(6))
    ids = set(_listed(cluster).brokers)
    for view in views.values():
        assert set(view.replicas) == set(view.isr) == ids
        assert view.leader in ids
    assert len({view.topic_id for view in views.values()}) == 1
    for internal in INTERNAL:
        told = cluster.describe(internal)
        assert told or footing.guest, f"{internal} was not made"
        assert {len(view.isr) for view in told.values()} <= {min(3, len(ids))}
    assert not cluster.describe(footing.name("no-such-topic"))
    if footing.guest:  # what is there already is somebody else's
        with pytest.raises(EnvironmentFailure, match="exists already"):
            cluster.create_topics([TopicFacts(topic, 6)], 60)
        return
    cluster.create_topics([TopicFacts(topic, 6)], 60)  # again: nothing happens
    assert {view.topic_id for view in cluster.describe(topic).values()} == {views[0].topic_id}


def check_transactions_are_read_whole_or_not_at_all(cluster: Cluster, footing: Footing = HOST) -> None:
    topic, group, before = footing.name(SMALL), footing.name(GROUP), _high(cluster, footing.name(SMALL), 0)
    member = reader(cluster, Isolation.READ_COMMITTED, group)
    producer = producing(cluster, footing.name("whole"))
    for commits, values in ((True, [b"1", b"2", b"3"]), (False, [b"x", b"y"]), (True, [b"4"])):
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, value, partition=0)
        if commits:
            place = TopicPartition(topic, 0, before + int(values[-1]))
            producer.send_offsets_to_transaction([place], member.consumer_group_metadata(), WITHIN_S)
            producer.commit_transaction(WITHIN_S)
        else:
            assert producer.flush(WITHIN_S) == 0
            producer.abort_transaction(WITHIN_S)
    member.close()
    assert read(cluster, topic, 0, Isolation.READ_COMMITTED, before) == [b"1", b"2", b"3", b"4"]
    everything = [b"1", b"2", b"3", b"x", b"y", b"4"]
    assert read(cluster, topic, 0, Isolation.READ_UNCOMMITTED, before) == everything
    wait_for(lambda: cluster.committed(group) == {(topic, 0): before + 4}, "the group's offset", WITHIN_S)
    assert cluster.committed(footing.name("no-such-group")) == {}


def check_coordinators_are_those_that_the_brokers_name(cluster: Cluster, footing: Footing = HOST) -> None:
    at = footing.address(cluster)
    names = ["", "a", "polygenelubricants", "shop-1", "Straße", "\U0001f600"]
    names = [footing.name(name) for name in names]
    for kind, ours in ((0, cluster.group_coordinator), (1, cluster.txn_coordinator)):
        request = FindCoordinatorRequest(coordinator_keys=names[kind == 1 :], key_type=kind, version=4)
        told = {one.key: one.node_id for one in ask(at, request, 10).coordinators if one.key}
        assert told == {name: ours(name) for name in told}
        assert len(told) >= 5
    topic, number = cluster.offsets_place(footing.name(GROUP))
    assert topic == "__consumer_offsets"
    if there := cluster.describe(topic):
        assert there[number].leader == cluster.group_coordinator(footing.name(GROUP))


def check_offsets_are_told(cluster: Cluster, footing: Footing = HOST) -> None:
    topic, id_ = footing.name(SMALL), footing.name("checks")
    place = (topic, 0)
    at = _high(cluster, *place)
    assert cluster.transaction(footing.name("nobodys")) is None
    producer = producing(cluster, id_)
    producer.begin_transaction()
    for _ in range(3):
        producer.produce(topic, b"x")
    producer.commit_transaction(30)
    producer.begin_transaction()
    producer.produce(topic, b"x")
    assert producer.flush(30) == 0
    # 3 records, a marker; 1 that is open.
    assert cluster.last_stable([topic]) == {place: (0, at + 4, at + 5)}
    told = cluster.transaction(id_)
    assert told is not None
    assert (told.state, told.places) == ("Ongoing", (place,))
    assert told.producer_id >= 0 and told.epoch >= 0
    producer.abort_transaction(30)
    wait_for(lambda: cluster.last_stable([topic])[place] == (0, at + 6, at + 6), "the abort's marker", 10)
    wait_for(lambda: _state(cluster, id_) == "CompleteAbort", "the abort to be complete", 10)


def check_features_and_settings_are_told(cluster: Cluster, footing: Footing = HOST) -> None:
    features = cluster.finalized()
    assert features["metadata.version"] > 0
    assert all(level > 0 for level in features.values())
    assert cluster.compacted([footing.name(TOPIC)]) == {footing.name(TOPIC): False}


def check_requests_are_recorded_and_then_no_more(cluster: Cluster, footing: Footing = HOST) -> None:
    def send() -> None:
        producer = Producer({"bootstrap.servers": cluster.bootstrap_for(SLOT), **of_librdkafka()})
        producer.produce(footing.name(SMALL), b"x")
        assert producer.flush(30) == 0

    cluster.record_requests(True)
    send()
    cluster.record_requests(False)
    told = cluster.spoken([SLOT])
    if footing.guest:  # the brokers' logs are not a guest's to turn on
        assert not told.versions
        return
    assert {"Produce", "Metadata", "ApiVersions"} <= set(told.versions)
    assert all(len(versions) == 1 for versions in told.versions.values())
    assert len(told.software) == 1
    send()
    assert not cluster.spoken([SLOT]).versions
    cluster.record_requests(True)
    send()
    cluster.record_requests(False)
    assert "Produce" in cluster.spoken([SLOT]).versions  # read or not, it can be recorded again


def check_clients_find_no_way_round(cluster: Cluster, footing: Footing = HOST) -> None:
    """Whoever comes by a slot is sent to that slot's listeners, and to no other."""
    advertised = {f"{one.host}:{one.port}" for one in _listed(cluster).brokers.values()}
    assert advertised == set(cluster.bootstrap_for(SLOT).split(","))
    if not footing.guest:
        assert advertised.isdisjoint(cluster.bootstrap.split(","))


def check_brokers_are_not_to_be_struck(cluster: Cluster, needs: Ability) -> None:
    """A cluster of which that cannot be done hands out no broker to do it to."""
    assert not cluster.brokers, f"it has brokers, and says that it cannot {needs}"


def check_kill_and_start(cluster: Cluster, footing: Footing = HOST) -> None:
    id_ = footing.name("shop-1")
    broker = _of(cluster, cluster.txn_coordinator(id_))
    pid = broker.pid
    assert "SIGKILL" in broker.kill()
    assert not broker.running
    assert not psutil.pid_exists(pid)
    assert f"broker {broker.id} is not running" in cluster.out_of_sync()
    _raises_fault(broker.kill)
    _raises_fault(broker.pause)
    wait_for(lambda: _moved_from(cluster, broker, footing), "other leaders", MOVE_TIMEOUT_S)
    assert cluster.txn_coordinator(id_) not in (-1, broker.id)
    broker.start()
    assert broker.running
    assert broker.pid != pid
    broker.start()  # does nothing


def check_pause_and_resume(cluster: Cluster, footing: Footing = HOST) -> None:
    broker = _of(cluster, cluster.controller())
    pid = broker.pid
    assert broker.pause()
    assert not broker.running
    began = time.monotonic()
    assert cluster.out_of_sync()
    assert time.monotonic() - began < 5, "a paused broker made a question hang"
    wait_for(lambda: _moved_from(cluster, broker, footing), "other leaders", MOVE_TIMEOUT_S)
    assert cluster.controller() != broker.id
    assert broker.resume()
    assert broker.running
    assert broker.pid == pid
    assert "was not stopped" in broker.resume()


def check_stop_and_start(cluster: Cluster, footing: Footing = HOST) -> None:
    broker = cluster.brokers[0]
    assert broker.stop()
    assert not broker.running
    wait_for(lambda: _moved_from(cluster, broker, footing), "other leaders", MOVE_TIMEOUT_S)
    broker.start()
    assert broker.log_file.stat().st_size > 0
    led = next(iter(cluster.describe(footing.name(TOPIC))))
    assert broker.log_bytes((footing.name(TOPIC), led)) > 0
    assert broker.log_bytes(("no-such-topic", 0)) == 0


@dataclass(frozen=True)
class OfBrokers:
    """A check that strikes a broker, and what a cluster must be able to for it."""

    name: str
    needs: Ability
    act: Callable[[Cluster, Footing], None]

    def __call__(self, cluster: Cluster, footing: Footing = HOST) -> None:
        self.act(cluster, footing)


OF_BROKERS = (
    OfBrokers("kill", Ability.KILL, check_kill_and_start),
    OfBrokers("pause", Ability.PAUSE, check_pause_and_resume),
    OfBrokers("stop", Ability.KILL, check_stop_and_start),
)


def check_links_are_not_to_be_struck(cluster: Cluster) -> None:
    assert not cluster.network.links
    with (
        pytest.raises(FaultFailed),
        cluster.network.impose([client_link(SLOT, 1)], LinkEffect.SILENT),
    ):
        pass
    cluster.network.heal()  # nothing to heal is no error


def peer_links(cluster: Cluster) -> list[str]:
    """Those between brokers; a guest has none."""
    return [link for link in cluster.network.links if link.startswith("peer:")]


def check_a_cut_client_link(cluster: Cluster, footing: Footing = HOST) -> None:
    """Nothing passes: what is sent meanwhile to that broker is neither acknowledged nor written."""
    topic = footing.name(TOPIC)
    with load(cluster, footing) as last:
        broker, led, others = _one_leader(cluster, topic)
        link = client_link(SLOT, broker)
        wait_for(lambda: cluster.network.connections([link])[link], "a connection on the link", WITHIN_S)
        with cluster.network.impose([link], LinkEffect.SILENT) as cut:
            assert list(cut.links) == [link]
            assert cut.evidence(), "a cut that stands cannot be shown to act"
            # What a busy broker had taken before is still written; twenty records a second would never be still.
            wait_for(
                lambda: _still(cluster, topic, last, led, others),
                "nothing to pass",
                MOVE_TIMEOUT_S,
                every_s=0.01,
            )
            assert cluster.out_of_sync() == [], "a cut of one client's link struck somebody else"
        assert cut.evidence() == ""
        _acknowledged_since(last, [*led, *others], time.monotonic())


def check_lost_answers(cluster: Cluster, footing: Footing = HOST) -> None:
    """What is asked arrives and is carried out, and nobody is told."""
    topic = footing.name(TOPIC)
    with load(cluster, footing) as last:
        broker, led, others = _one_leader(cluster, topic)
        link = client_link(SLOT, broker)
        wait_for(lambda: cluster.network.connections([link])[link], "a connection on the link", WITHIN_S)
        with cluster.network.impose([link], LinkEffect.ANSWERS_LOST) as cut:
            assert cut.evidence(), "answers that are lost cannot be shown to be"
            _acknowledged_since(last, others, time.monotonic())
            before, high = dict(last), _highs(cluster, topic, led)
            _acknowledged_since(last, others, time.monotonic() + STILL_S)
            assert {number: last[number] for number in led} == {number: before[number] for number in led}
            after = _highs(cluster, topic, led)
            assert all(after[number] > high[number] for number in led), "what was asked did not arrive"
        _acknowledged_since(last, [*led, *others], time.monotonic())


def check_a_broker_that_is_cut_off(cluster: Cluster, footing: Footing = HOST) -> None:
    """It leaves every ISR and leads nothing in the others' view; there is no way round the cut."""
    ids = [broker.id for broker in cluster.brokers]
    topic = footing.name(TOPIC)
    kinds = {link.rpartition(":")[2] for link in peer_links(cluster)}
    assert {peer_link(a, b, kind) for a in ids for b in ids if a != b for kind in kinds} == set(
        peer_links(cluster)
    )
    with load(cluster, footing):
        broker = _of(cluster, cluster.describe(topic)[0].leader)
        links = [link for link in around(broker.id, ids) if link in cluster.network.links]
        with cluster.network.impose(links, LinkEffect.SILENT) as cut:
            assert sorted(cut.links) == sorted(links)
            evidence = cut.evidence()
            proven = {part.partition(": ")[0] for part in evidence.split("; ")}
            assert proven and proven <= set(links), evidence
            wait_for(lambda: _moved_from(cluster, broker, footing), "other leaders", MOVE_TIMEOUT_S)
            wait_for(lambda: _out_of_every_isr(cluster, broker, topic), "the ISRs to shrink", MOVE_TIMEOUT_S)
            assert broker.running
            assert getattr(cluster, "bypasses", list)() == []
            # A cut that leaks would let it come back.
            leaks = _comes_true(lambda: not _out_of_every_isr(cluster, broker, topic), STILL_S)
            assert not leaks, "the broker that is cut off came back into an ISR"
        assert cut.evidence() == ""
        cluster.await_in_sync(SYNC_TIMEOUT_S)
    cluster.network.heal()  # once more: nothing is left to heal


def check_the_witness(cluster: Cluster, footing: Footing, folder: Path) -> None:
    """It takes what was written, batch by batch: committed, aborted, compressed."""
    topic = footing.name(SEEN)
    for compression in ("none", "lz4"):
        producer = producing(cluster, footing.name(f"witnessed-{compression}"), compression)
        for turn, commits in enumerate((True, False, True)):
            producer.begin_transaction()
            for number in range(30):
                value = f"{compression} {turn} {number}".encode()
                producer.produce(topic, value, key=str(number).encode(), partition=number % 3)
            assert producer.flush(WITHIN_S) == 0
            (producer.commit_transaction if commits else producer.abort_transaction)(WITHIN_S)
    wait_for(lambda: _at_rest(cluster, topic), "the last markers", WITHIN_S)
    cluster.await_in_sync(SYNC_TIMEOUT_S)
    told = {
        isolation: {n: records(cluster, topic, n, isolation) for n in range(3)}
        for isolation in (Isolation.READ_UNCOMMITTED, Isolation.READ_COMMITTED)
    }
    assert sum(map(len, told[Isolation.READ_UNCOMMITTED].values())) == 180
    assert sum(map(len, told[Isolation.READ_COMMITTED].values())) == 120
    check_witness_of(cluster, topic, told, folder)


@contextmanager
def load(cluster: Cluster, footing: Footing = HOST) -> Iterator[Mapping[int, float]]:
    """Write to every partition meanwhile; gives the time of the last acknowledgement of each.

    (A follower that lags behind nothing never leaves the ISR.)
    """
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_for(SLOT), "acks": "all", "log_level": 0,
         "socket.timeout.ms": 10_000, "reconnect.backoff.max.ms": 500, **of_librdkafka()}
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
    """A transactional producer that has been initialised, through the slot."""
    settings = ProducerSettings(cluster.bootstrap_for(SLOT), compression=compression)
    producer = Producer(librdkafka.transactional_producer(settings, id_))
    producer.init_transactions(WITHIN_S)
    return producer


def read(cluster: Cluster, topic: str, number: int, isolation: Isolation, start: int = 0) -> list[bytes]:
    """The values that a consumer is given from an offset to the end, through the slot."""
    return [value for _, _, value in records(cluster, topic, number, isolation, start)]


def records(
    cluster: Cluster, topic: str, number: int, isolation: Isolation, start: int = 0
) -> list[tuple[int, bytes | None, bytes]]:
    """Offset, key and value of what a consumer is given, from an offset to the end of what is stable."""
    found: list[tuple[int, bytes | None, bytes]] = []
    end = cluster.last_stable([topic])[topic, number][1]
    with closing(reader(cluster, isolation)) as consumer:
        consumer.assign([TopicPartition(topic, number, start)])

        def at_the_end() -> bool:
            for one in consumer.consume(1_000, 0.2):
                assert one.error() is None, one.error()
                found.append((one.offset(), one.key(), one.value()))
            (place,) = consumer.position([TopicPartition(topic, number)])
            return place.offset >= end

        wait_for(at_the_end, f"{topic}/{number} to be read to its end", WITHIN_S)
    return found


def reader(cluster: Cluster, isolation: Isolation, group: str | None = None) -> Consumer:
    """A consumer through the slot."""
    settings = librdkafka.reader(cluster.bootstrap_for(SLOT), "conformance", isolation)
    return Consumer(settings | ({"group.id": group} if group else {}))


def _listed(cluster: Cluster):  # type: ignore[no-untyped-def]
    """What a client of the slot is told of the brokers."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_for(SLOT), **of_librdkafka()})
    return admin.list_topics(timeout=WITHIN_S)


def _state(cluster: Cluster, id_: str) -> str | None:
    told = cluster.transaction(id_)
    return told.state if told else None


def _high(cluster: Cluster, topic: str, number: int) -> int:
    return cluster.last_stable([topic])[topic, number][2]


def _highs(cluster: Cluster, topic: str, numbers: Sequence[int]) -> dict[int, int]:
    ends = cluster.last_stable([topic])
    return {number: ends[topic, number][2] for number in numbers}


def _at_rest(cluster: Cluster, topic: str) -> bool:
    return all(stable == high for _, stable, high in cluster.last_stable([topic]).values())


def _one_leader(cluster: Cluster, topic: str) -> tuple[int, list[int], list[int]]:
    """A broker, the partitions of a topic that it leads, and those that others lead."""
    views = cluster.describe(topic)
    broker = views[0].leader
    led = [number for number, view in views.items() if view.leader == broker]
    others = [number for number in views if number not in led]
    assert others, "one broker leads everything"
    return broker, led, others


def _acknowledged_since(last: Mapping[int, float], partitions: Sequence[int], since: float) -> None:
    wait_for(
        lambda: all(last[number] > since for number in partitions),
        f"partitions {partitions} to take another record",
        MOVE_TIMEOUT_S,
    )


def _still(
    cluster: Cluster, topic: str, last: Mapping[int, float], led: Sequence[int], others: Sequence[int]
) -> bool:
    """Whether nothing is written to some partitions, or acknowledged of them, while others take records."""
    before, high = dict(last), _highs(cluster, topic, led)
    _acknowledged_since(last, others, time.monotonic() + STILL_S)
    acknowledged = [number for number in led if last[number] != before[number]]
    return not acknowledged and _highs(cluster, topic, led) == high


def _out_of_every_isr(cluster: Cluster, broker: Broker, topic: str) -> bool:
    return all(broker.id not in view.isr for view in cluster.describe(topic).values())


def _comes_true(question: Callable[[], bool], within_s: float) -> bool:
    """Whether it does, in so many seconds."""
    try:
        return wait_for(question, "it", within_s)
    except EnvironmentFailure:
        return False


def _of(cluster: Cluster, id_: int) -> Broker:
    return next(broker for broker in cluster.brokers if broker.id == id_)


def _moved_from(cluster: Cluster, broker: Broker, footing: Footing) -> bool:
    everything: list[PartitionView] = []
    for topic in (footing.name(TOPIC), *INTERNAL):
        everything += cluster.describe(topic).values()
    return all(view.leader not in (-1, broker.id) for view in everything)


def _raises_fault(verb: Callable[[], str]) -> None:
    try:
        verb()
    except FaultFailed:
        return
    raise AssertionError("a verb took a broker that was not there")
