"""What every kind of cluster must do, asked through the interface alone."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

import psutil
from confluent_kafka import Message, Producer
from kafka.protocol.metadata import FindCoordinatorRequest

from harness.clients.wire import ask
from harness.cluster import Broker, Cluster, PartitionView
from harness.errors import FaultFailed
from harness.pipeline import TopicFacts
from harness.waiting import wait_for

TOPIC = "orders"
SLOT = "feed"
MOVE_TIMEOUT_S = 40.0  # a failover takes 6 to 9 s; a busy machine, longer
SYNC_TIMEOUT_S = 60.0


def check_cluster(make: Callable[[], AbstractContextManager[Cluster]]) -> None:
    """Start one, and hold it to its interface; every check leaves it as it found it."""
    with make() as cluster:
        check_topics_are_in_sync_when_they_are_created(cluster)
        check_coordinators_are_those_that_the_brokers_name(cluster)
        check_offsets_are_told(cluster)
        check_requests_are_recorded_and_then_no_more(cluster)
        for check in (check_kill_and_start, check_pause_and_resume, check_stop_and_start):
            with load(cluster):
                check(cluster)
                cluster.await_in_sync(SYNC_TIMEOUT_S)


def check_topics_are_in_sync_when_they_are_created(cluster: Cluster) -> None:
    cluster.create_topics([TopicFacts(TOPIC, 6), TopicFacts("small", 1)], 60)
    assert cluster.out_of_sync() == []
    views = cluster.describe(TOPIC)
    assert sorted(views) == list(range(6))
    ids = {broker.id for broker in cluster.brokers}
    for view in views.values():
        assert set(view.replicas) == set(view.isr) == ids
        assert view.leader in ids
    assert len({view.topic_id for view in views.values()}) == 1
    for internal in ("__transaction_state", "__consumer_offsets"):
        assert {len(view.isr) for view in cluster.describe(internal).values()} == {3}
    assert not cluster.describe("no-such-topic")
    cluster.create_topics([TopicFacts(TOPIC, 6)], 60)  # again: nothing happens
    assert {view.topic_id for view in cluster.describe(TOPIC).values()} == {views[0].topic_id}


def check_coordinators_are_those_that_the_brokers_name(cluster: Cluster) -> None:
    port = int(cluster.bootstrap.partition(",")[0].rpartition(":")[2])
    names = ["", "a", "polygenelubricants", "shop-1", "Straße", "\U0001f600"]
    for kind, ours in ((0, cluster.group_coordinator), (1, cluster.txn_coordinator)):
        request = FindCoordinatorRequest(coordinator_keys=names[kind == 1 :], key_type=kind, version=4)
        told = {one.key: one.node_id for one in ask(port, request, 10).coordinators if one.key}
        assert told == {name: ours(name) for name in told}
        assert len(told) == 5


def check_offsets_are_told(cluster: Cluster) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_for(SLOT), "transactional.id": "checks"})
    producer.init_transactions(30)
    producer.begin_transaction()
    for _ in range(3):
        producer.produce("small", b"x")
    producer.commit_transaction(30)
    producer.begin_transaction()
    producer.produce("small", b"x")
    assert producer.flush(30) == 0
    assert cluster.last_stable(["small"]) == {("small", 0): (0, 4, 5)}  # 3 records, a marker; 1 open
    producer.abort_transaction(30)
    wait_for(lambda: cluster.last_stable(["small"])["small", 0] == (0, 6, 6), "the abort's marker", 10)
    assert cluster.committed("no-such-group") == {}


def check_requests_are_recorded_and_then_no_more(cluster: Cluster) -> None:
    def send() -> None:
        producer = Producer({"bootstrap.servers": cluster.bootstrap_for(SLOT)})
        producer.produce("small", b"x")
        assert producer.flush(30) == 0

    cluster.record_requests(True)
    send()
    cluster.record_requests(False)
    told = cluster.spoken([SLOT])
    assert {"Produce", "Metadata", "ApiVersions"} <= set(told.versions)
    assert all(len(versions) == 1 for versions in told.versions.values())
    assert len(told.software) == 1
    send()
    assert not cluster.spoken([SLOT]).versions
    cluster.record_requests(True)
    send()
    cluster.record_requests(False)
    assert "Produce" in cluster.spoken([SLOT]).versions  # read or not, it can be recorded again


def check_kill_and_start(cluster: Cluster) -> None:
    broker = _of(cluster, cluster.txn_coordinator("shop-1"))
    pid = broker.pid
    assert broker.kill() == f"process {pid} ended by SIGKILL"
    assert not broker.running
    assert not psutil.pid_exists(pid)
    assert f"broker {broker.id} is not running" in cluster.out_of_sync()
    _raises_fault(broker.kill)
    _raises_fault(broker.pause)
    wait_for(lambda: _moved_from(cluster, broker), "other leaders", MOVE_TIMEOUT_S)
    assert cluster.txn_coordinator("shop-1") not in (-1, broker.id)
    broker.start()
    assert broker.running
    assert broker.pid != pid
    broker.start()  # does nothing


def check_pause_and_resume(cluster: Cluster) -> None:
    broker = _of(cluster, cluster.controller())
    assert broker.pause() == f"process {broker.pid} stopped by SIGSTOP"
    assert not broker.running
    began = time.monotonic()
    assert cluster.out_of_sync()
    assert time.monotonic() - began < 5, "a paused broker made a question hang"
    wait_for(lambda: _moved_from(cluster, broker), "other leaders", MOVE_TIMEOUT_S)
    assert cluster.controller() != broker.id
    assert broker.resume() == f"process {broker.pid} continued by SIGCONT"
    assert broker.running
    assert "was not stopped" in broker.resume()


def check_stop_and_start(cluster: Cluster) -> None:
    broker = cluster.brokers[0]
    assert broker.stop().startswith(f"process {broker.pid} ended with status")
    wait_for(lambda: _moved_from(cluster, broker), "other leaders", MOVE_TIMEOUT_S)
    broker.start()
    assert broker.data_dir.is_dir()
    assert broker.log_file.stat().st_size > 0


@contextmanager
def load(cluster: Cluster) -> Iterator[Mapping[int, float]]:
    """Write to every partition meanwhile; gives the time of the last acknowledgement of each.

    (A follower that lags behind nothing never leaves the ISR.)
    """
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_for(SLOT), "acks": "all", "log_level": 0,
         "socket.timeout.ms": 10_000, "reconnect.backoff.max.ms": 500}
    )  # fmt: skip
    last: dict[int, float] = {}
    over = threading.Event()

    def acknowledged(error: object, message: Message) -> None:
        if error is None:
            last[message.partition()] = time.monotonic()

    def write() -> None:
        while not over.wait(0.05):  # a pace that leaves the brokers time for what is tested
            for partition in range(6):
                producer.produce(TOPIC, b"x", partition=partition, on_delivery=acknowledged)
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


def _of(cluster: Cluster, id_: int) -> Broker:
    return next(broker for broker in cluster.brokers if broker.id == id_)


def _moved_from(cluster: Cluster, broker: Broker) -> bool:
    everything: list[PartitionView] = []
    for topic in (TOPIC, "__transaction_state", "__consumer_offsets"):
        everything += cluster.describe(topic).values()
    return all(view.leader not in (-1, broker.id) for view in everything)


def _raises_fault(verb: Callable[[], str]) -> None:
    try:
        verb()
    except FaultFailed:
        return
    raise AssertionError("a verb took a broker that was not there")
