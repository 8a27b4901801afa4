"""The local cluster on real brokers: its interface, its network, and what is left when it is killed."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from harness.clients import librdkafka
from harness.clients.interface import ProducerSettings
from harness.clients.records import ClientRecord, consume
from harness.cluster import ClusterSpec
from harness.cluster.local import LocalCluster
from harness.common.errors import StartFailed, UsageError
from harness.common.waiting import wait_for
from harness.environment import PreparedEnvironment
from harness.environment.cache import cache_folder
from harness.environment.ports import PortBlock
from harness.environment.prepare import prepare
from harness.model.vocabulary import Isolation
from harness.network import Cut
from harness.network.links import client_link, links_around, links_between
from harness.network.proxied import LinkCut, ProxiedNetwork
from harness.processes.marks import marked_processes, start_time
from harness.processes.spawn import Supervisor
from harness.roles.start_offsets import first_offsets
from tests.support.conformance.means import ENDPOINT, MOVE_TIMEOUT_S, SYNC_TIMEOUT_S, TOPIC, load
from tests.support.conformance.whole import check_cluster

Make = Callable[..., LocalCluster]


@pytest.fixture(scope="module")
def ready() -> PreparedEnvironment:
    return prepare("4.3.1", "auto", "auto", cache_folder(), print)


@pytest.fixture(scope="module")
def make(ready: PreparedEnvironment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Make]:
    """Clusters that are not started yet, each in a folder of its own."""
    with Supervisor() as supervisor, PortBlock(ready.cache) as ports:

        def local(next_port: Callable[[], int] = ports.take, **spec: object) -> LocalCluster:
            folder = tmp_path_factory.mktemp("cluster")
            wanted = ClusterSpec(endpoints=(ENDPOINT, "w0"), **spec)  # type: ignore[arg-type]
            return LocalCluster(wanted, folder, ready, supervisor, next_port)

        yield local


@pytest.fixture(scope="module")
def shared(make: Make) -> Iterator[LocalCluster]:
    """One cluster, held to the interface first, for the tests of what lies under it."""
    with checked(make()) as cluster:
        yield cluster


def test_a_null_comes_back_as_a_null_and_an_empty_one_as_empty(shared: LocalCluster) -> None:
    contents = [(key, value) for key in (None, b"") for value in (None, b"", b"v")]
    producer = Producer(librdkafka.idempotent_producer(ProducerSettings(shared.bootstrap)))
    for key, value in contents:
        headers = [("null", None), ("empty", b""), ("n", b"1")]
        producer.produce(TOPIC, value, key, partition=0, headers=headers)
    assert producer.flush(SYNC_TIMEOUT_S) == 0
    with closing(Consumer(librdkafka.reader(shared.bootstrap, "nulls", Isolation.READ_COMMITTED))) as reader:
        reader.assign([TopicPartition(TOPIC, 0, 0)])
        found: list[ClientRecord] = []

        def all_read() -> bool:
            found.extend(consume(reader, 1_000, 0.2))
            return len(found) >= len(contents) and found[-1].key() == b"" and found[-1].value() == b"v"

        wait_for(all_read, "all records that were written", SYNC_TIMEOUT_S)
    last = found[-len(contents) :]
    assert [(record.key(), record.value()) for record in last] == contents
    assert {tuple(record.headers() or ()) for record in last} == {
        (("null", None), ("empty", b""), ("n", b"1"))
    }


@contextmanager
def checked(cluster: LocalCluster) -> Iterator[LocalCluster]:
    @contextmanager
    def started() -> Iterator[LocalCluster]:
        yield cluster

    with cluster:
        check_cluster(started)
        yield cluster


def cut_off(cluster: LocalCluster, links: Sequence[str]) -> AbstractContextManager[LinkCut]:
    return cluster.network.impose(links, Cut())


def test_it_keeps_to_the_interface(shared: LocalCluster) -> None:
    assert shared.out_of_sync() == []
    with pytest.raises(UsageError, match="no client endpoint nobody"):
        shared.bootstrap_for("nobody")


def test_two_peers_that_are_cut_lose_sight_of_each_other_and_find_no_way_round(shared: LocalCluster) -> None:
    def shrunk() -> list[str]:
        return [words for words in shared.out_of_sync() if words.startswith(TOPIC) and "lacks" in words]

    def flowing() -> bool:
        return len(last) == 6 and time.monotonic() - min(last.values()) < 1

    with load(shared) as last:
        with cut_off(shared, links_between(1, 2)) as cut:
            assert len(cut.links) == 4
            evidence = wait_for(
                cut.evidence, "a proof of the cut", SYNC_TIMEOUT_S, last_seen=lambda: cut.missing_proof
            )
            proven = [part.partition(": ")[0] for part in evidence.split("; ")]
            assert proven and set(proven) <= set(cut.links)
            assert evidence.count("stays unanswered, and a connection that bypasses it is answered") == len(
                proven
            )
            assert "no connection was on" not in evidence
            wait_for(shrunk, "the ISR to shrink", MOVE_TIMEOUT_S)
            # The way round the proxies, where there is one, is only found seconds later.
            wait_for(lambda: shared.bypasses() or flowing(), "records to be taken again", MOVE_TIMEOUT_S)
            assert shared.bypasses() == []
        assert cut.evidence() == ""
        shared.await_in_sync(SYNC_TIMEOUT_S)


def test_cuts_may_overlap_and_each_ends_its_own(shared: LocalCluster) -> None:
    network: ProxiedNetwork = shared.network
    with cut_off(shared, links_around(1, [1, 2, 3])) as outer:
        with cut_off(shared, links_between(1, 2)):
            pass
        # It fails if the inner cut's end has healed the outer one.
        wait_for(
            outer.evidence, "a proof of the outer cut", SYNC_TIMEOUT_S, last_seen=lambda: outer.missing_proof
        )
        network.heal()
        assert outer.evidence() == ""
        network.heal()  # idempotent
    shared.await_in_sync(SYNC_TIMEOUT_S)


def test_cutting_one_client_blinds_nobody_else(shared: LocalCluster) -> None:
    with cut_off(shared, [client_link("w0", 2)]) as unused:
        assert unused.evidence() == ""  # nobody was on it, so nothing was cut
    with connected(shared, "w0") as opened, cut_off(shared, [client_link("w0", 2)]) as cut:
        assert cut.links == ("client:w0->2",)
        assert cut.evidence() == ""
        for connection in opened:
            connection.sendall(b"request")
        evidence = wait_for(
            cut.evidence, "a proof of the cut", SYNC_TIMEOUT_S, last_seen=lambda: cut.missing_proof
        )
        if sys.platform == "linux":
            assert "client:w0->2: 7 bytes of requests and 0 bytes of responses were sent into it" in evidence
        assert shared.out_of_sync() == []
        assert shared.network.passes(f"client:{ENDPOINT}->2", 5)
        assert shared.network.passes("client:w0->1", 5)
    assert shared.network.passes("client:w0->2", 5)


def test_a_link_that_is_not_there_is_named(shared: LocalCluster) -> None:
    with pytest.raises(UsageError, match="client:w9->2"), cut_off(shared, [client_link("w9", 2)]):
        pass


@contextmanager
def connected(cluster: LocalCluster, endpoint: str) -> Iterator[list[socket.socket]]:
    """One open connection on each of the endpoint's links."""
    with ExitStack() as opened:
        connections = []
        for address in cluster.bootstrap_for(endpoint).split(","):
            host, _, port = address.rpartition(":")
            one = socket.create_connection((host, int(port)), SYNC_TIMEOUT_S)
            connections.append(opened.enter_context(one))
        links = [f"client:{endpoint}->{broker.id}" for broker in cluster.brokers]
        wait_for(lambda: all(cluster.network.connections(links).values()), "the proxies to take them", 10)
        yield connections


RUN = """
import sys
from pathlib import Path
from harness.cluster import ClusterSpec
from harness.cluster.local import LocalCluster
from harness.environment.cache import cache_folder
from harness.environment.ports import PortBlock
from harness.environment.prepare import prepare
from harness.processes.spawn import Supervisor

ready = prepare("4.3.1", "auto", "auto", cache_folder(), lambda words: None)
with Supervisor() as supervisor, PortBlock(ready.cache) as ports:
    with LocalCluster(ClusterSpec(), Path(sys.argv[1]), ready, supervisor, ports.take) as cluster:
        cluster.brokers[0].pause()
        scratch = supervisor.scratch_folder("test")
        print(supervisor.mark, supervisor._guardian.pid, scratch, cluster.layout.toxiproxy, flush=True)
        sys.stdin.read()
"""


def test_another_run_beside_it_is_killed_and_leaves_nothing(shared: LocalCluster, tmp_path: Path) -> None:
    run = subprocess.Popen(
        [sys.executable, "-c", RUN, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert run.stdout is not None
    mark, guardian, scratch, toxiproxy = run.stdout.readline().decode().split()
    assert len([1 for _, whose in marked_processes() if whose == mark]) == 4
    assert shared.out_of_sync() == []
    os.kill(run.pid, signal.SIGKILL)
    run.wait()
    wait_for(lambda: start_time(int(guardian)) is None, "the end of the guardian", 30)
    assert not [process for process, whose in marked_processes() if whose == mark]
    assert not list(Path(scratch).parent.glob(f"fencepost-{mark}*"))
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", int(toxiproxy))) != 0
    assert shared.out_of_sync() == []


def test_a_reader_says_where_a_log_begins_now(shared: LocalCluster) -> None:
    bootstrap, place = shared.bootstrap_for(ENDPOINT), ("small", 0)
    producer = Producer(librdkafka.idempotent_producer(ProducerSettings(bootstrap)))
    for _ in range(3):
        producer.produce(place[0], b"x", partition=place[1])
    assert producer.flush(30) == 0
    consumer = Consumer(librdkafka.reader(bootstrap, "reader", Isolation.READ_COMMITTED))
    with closing(consumer):
        assert first_offsets(consumer, [place], 30) == {place: 0}
        admin = AdminClient({"bootstrap.servers": bootstrap})  # it has to live until it has its answer
        (deleted,) = admin.delete_records([TopicPartition(*place, 2)]).values()
        assert deleted.result(timeout=60).low_watermark == 2
        assert first_offsets(consumer, [place, ("nowhere", 0), (place[0], 99)], 30) == {place: 2}
        nobody = Consumer(librdkafka.reader("127.0.0.1:1", "reader", Isolation.READ_COMMITTED))
        assert first_offsets(nobody, [place], 0.5) == {}


def test_a_port_that_is_taken_meanwhile_costs_a_second_try(make: Make, ready: PreparedEnvironment) -> None:
    with PortBlock(ready.cache) as ports, socket.socket() as thief:
        first = ports.take()
        thief.bind(("127.0.0.1", first))
        thief.listen()
        handed = iter([first])
        with make(lambda: next(handed, None) or ports.take()) as cluster:
            assert first not in cluster.layout.listeners.values()
            assert cluster.out_of_sync() == []


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"settings": {"log.segment.bytes": "many"}}, "a broker setting is wrong.*log.segment.bytes"),
        ({"heap_mb": 1_000_000_000}, "not enough memory.*heap-mb"),
    ],
)
def test_a_broker_that_cannot_start_says_why(make: Make, spec: dict[str, object], words: str) -> None:
    before = {process.pid for process, _ in marked_processes()}
    with pytest.raises(StartFailed, match=words) as refusal, make(**spec):
        pass
    assert "\n" not in str(refusal.value)
    left = [process for process, _ in marked_processes() if process.pid not in before]
    assert not [process for process in left if process.name() == "java"]
