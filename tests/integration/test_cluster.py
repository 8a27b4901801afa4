"""The local cluster on real brokers: its interface, its network, and that a kill leaves nothing behind."""

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
from harness.clients.interface import ClientRecord, ProducerSettings, consume
from harness.cluster import ClusterSpec
from harness.cluster.local import LocalCluster
from harness.common.errors import StartFailed, UsageError
from harness.common.waiting import wait_for
from harness.environment import PreparedEnvironment
from harness.environment.cache import cache_folder
from harness.environment.prepare import prepare
from harness.environment.resources import PortBlock
from harness.environment.versions import DEFAULT_KAFKA
from harness.model.pipeline import durable_topic
from harness.model.vocabulary import Isolation
from harness.network import ActiveEffect, Cut, client_link, links_around, links_between
from harness.network.networks import ProxiedNetwork
from harness.processes.guardian import marked_processes, start_time
from harness.processes.messages import Report
from harness.processes.spawn import Supervisor
from harness.record.events import JournalBegan
from harness.record.journal import Journal
from harness.roles.control import Control
from harness.roles.feeder import Feeder
from harness.roles.final_reader import log_start_offsets
from tests.support.conformance.means import (
    DECODED_ENDPOINT,
    ENDPOINT,
    MOVE_TIMEOUT_S,
    SYNC_TIMEOUT_S,
    TOPIC,
    write_load,
)
from tests.support.conformance.whole import check_cluster
from workloads.custom.description import CustomTopic, InputSource
from workloads.custom.feeds import feed_of

Make = Callable[..., LocalCluster]


@pytest.fixture(scope="module")
def ready() -> PreparedEnvironment:
    return prepare(DEFAULT_KAFKA, "auto", "auto", cache_folder(), print)


@pytest.fixture(scope="module")
def make(ready: PreparedEnvironment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Make]:
    """Make clusters that are not started yet, each in a new folder."""
    with Supervisor() as supervisor, PortBlock(ready.cache) as ports:

        def local(next_port: Callable[[], int] = ports.take, **spec: object) -> LocalCluster:
            folder = tmp_path_factory.mktemp("cluster")
            wanted = ClusterSpec(endpoints=(ENDPOINT, DECODED_ENDPOINT), **spec)  # type: ignore[arg-type]
            return LocalCluster(wanted, folder, ready, supervisor, next_port)

        yield local


@pytest.fixture(scope="module")
def shared(make: Make) -> Iterator[LocalCluster]:
    """One cluster for all tests of this module. Before them, it passes the conformance suite."""
    with conforming(make(decoded=(f"client:{DECODED_ENDPOINT}",))) as cluster:
        yield cluster


def test_a_null_is_read_as_null_and_an_empty_value_as_empty(shared: LocalCluster) -> None:
    contents = [(key, value) for key in (None, b"") for value in (None, b"", b"v")]
    producer = Producer(librdkafka.idempotent_producer(ProducerSettings(shared.bootstrap)))
    for key, value in contents:
        headers = [("null", None), ("empty", b""), ("n", b"1")]
        producer.produce(TOPIC, value, key, partition=0, headers=headers)
    assert producer.flush(SYNC_TIMEOUT_S) == 0
    with closing(Consumer(librdkafka.reader(shared.bootstrap, "nulls", Isolation.READ_COMMITTED))) as reader:
        reader.assign([TopicPartition(TOPIC, 0, 0)])
        records: list[ClientRecord] = []

        def all_read() -> bool:
            records.extend(consume(reader, 1_000, 0.2))
            return len(records) >= len(contents) and records[-1].key() == b"" and records[-1].value() == b"v"

        wait_for(all_read, "all records that were written", SYNC_TIMEOUT_S)
    last = records[-len(contents) :]
    assert [(record.key(), record.value()) for record in last] == contents
    assert {tuple(record.headers() or ()) for record in last} == {
        (("null", None), ("empty", b""), ("n", b"1"))
    }


class Counting(Control):
    """Stops the feeder when this many inputs were acknowledged."""

    def __init__(self, expected: int) -> None:
        super().__init__(None)
        self.expected = expected

    def await_go(self) -> None:
        pass

    def report(self, report: Report) -> None:
        self.stopping = (report.inputs_acked or 0) >= self.expected


@pytest.mark.parametrize(
    ("largest", "size", "count", "too_large"),
    [
        (3_000_000, 2_900_000, 2, False),
        (None, 1_040_000, 2, False),  # Kafka's default is 1,048,588
        (None, 1_100_000, 2, True),
        (12_000_000, 11_000_000, 2, False),  # more than what a reader fetches at once
        (20_000, 15_000, 40, False),  # a batch of several is too large
        (20_000, 21_000, 2, True),
    ],
)
def test_an_input_is_as_large_as_its_topic_allows(
    largest: int | None, size: int, count: int, too_large: bool, shared: LocalCluster, tmp_path: Path
) -> None:
    topic = f"inputs-{largest}-{size}"
    settings = {} if largest is None else {"max.message.bytes": str(largest)}
    shared.create_topics([durable_topic(topic, 1, 3, settings)], MOVE_TIMEOUT_S)
    (tmp_path / "inputs.jsonl").write_text(f'{{"value": "{"v" * size}"}}\n' * count)
    source = InputSource(file=tmp_path / "inputs.jsonl")
    feed = feed_of(topic, source, CustomTopic(config=settings))
    with Journal(tmp_path / "feeder.jsonl", 0, JournalBegan("feeder", role="feeder")) as journal:
        control, producer = Counting(count), ProducerSettings(shared.bootstrap)
        role = Feeder(producer, [feed], 100_000.0, 1, journal, control)
        if too_large:
            with pytest.raises(
                UsageError, match=f"too large for {topic}: raise the setting max.message.bytes"
            ):
                role.run()
            return
        role.run()
    assert role.acked == count
    with closing(Consumer(librdkafka.reader(shared.bootstrap, topic, Isolation.READ_COMMITTED))) as reader:
        reader.assign([TopicPartition(topic, 0, 0)])
        records: list[ClientRecord] = []

        def all_read() -> bool:
            records.extend(consume(reader, 1_000, 0.2))
            return len(records) >= count

        wait_for(all_read, "all inputs", SYNC_TIMEOUT_S)
    assert {len(record.value() or b"") for record in records} == {size}


@contextmanager
def conforming(cluster: LocalCluster) -> Iterator[LocalCluster]:
    @contextmanager
    def started() -> Iterator[LocalCluster]:
        yield cluster

    with cluster:
        check_cluster(started)
        yield cluster


def cut_off(cluster: LocalCluster, links: Sequence[str]) -> AbstractContextManager[ActiveEffect]:
    return cluster.network.impose(links, Cut())


def test_the_local_cluster_conforms_to_the_interface(shared: LocalCluster) -> None:
    assert shared.out_of_sync() == []
    with pytest.raises(UsageError, match="no client endpoint w9"):
        shared.bootstrap_for("w9")


def test_two_peers_that_are_cut_off_leave_the_isr_and_do_not_bypass_the_cut(shared: LocalCluster) -> None:
    def shrunk() -> list[str]:
        return [words for words in shared.out_of_sync() if words.startswith(TOPIC) and "lacks" in words]

    def flowing() -> bool:
        return len(last) == 6 and time.monotonic() - min(last.values()) < 1

    # The brokers that were killed before may have lost all their partitions to broker 3, which is not cut off.
    shared.elect_preferred([(TOPIC, number) for number in range(6)])
    with write_load(shared) as last:
        with cut_off(shared, links_between(1, 2)) as cut:
            assert len(cut.links) == 4
            evidence = wait_for(
                cut.evidence, "a proof of the cut", SYNC_TIMEOUT_S, last_seen=lambda: cut.missing_proof
            )
            proved_links = [part.partition(": ")[0] for part in evidence.split("; ")]
            assert proved_links and set(proved_links) <= set(cut.links)
            assert evidence.count("stays unanswered, and one that bypasses it is answered") == len(
                proved_links
            )
            assert "no connection was on" not in evidence
            wait_for(shrunk, "the ISR to shrink", MOVE_TIMEOUT_S, last_seen=shared.out_of_sync)
            # If brokers can bypass the proxies, they do so only some seconds later.
            wait_for(lambda: shared.bypasses() or flowing(), "records to be taken again", MOVE_TIMEOUT_S)
            assert shared.bypasses() == []
        assert cut.evidence() == ""
        shared.await_in_sync(SYNC_TIMEOUT_S)


def test_the_end_of_a_cut_does_not_heal_an_overlapping_cut(shared: LocalCluster) -> None:
    network: ProxiedNetwork = shared.network
    with cut_off(shared, links_around(1, [1, 2, 3])) as outer:
        with cut_off(shared, links_between(1, 2)):
            pass
        # This fails if the end of the inner cut has healed the outer cut.
        wait_for(
            outer.evidence, "a proof of the outer cut", SYNC_TIMEOUT_S, last_seen=lambda: outer.missing_proof
        )
        network.heal()
        assert outer.evidence() == ""
        network.heal()  # idempotent
    shared.await_in_sync(SYNC_TIMEOUT_S)


def test_cutting_off_one_client_affects_no_other_client(shared: LocalCluster) -> None:
    with cut_off(shared, [client_link("w0", 2)]) as unused:
        assert unused.evidence() == ""  # no connection was on the link, so nothing was cut
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
        assert shared.network.probe(f"client:{ENDPOINT}->2", 5).is_answered
        assert shared.network.probe("client:w0->1", 5).is_answered
    assert shared.network.probe("client:w0->2", 5).is_answered


def test_the_message_about_an_unknown_link_names_it(shared: LocalCluster) -> None:
    with pytest.raises(UsageError, match="client:w9->2"), cut_off(shared, [client_link("w9", 2)]):
        pass


@contextmanager
def connected(cluster: LocalCluster, endpoint: str) -> Iterator[list[socket.socket]]:
    """Yield open connections, one on each of the endpoint's links."""
    with ExitStack() as opened:
        connections = []
        for address in cluster.bootstrap_for(endpoint).split(","):
            host, _, port = address.rpartition(":")
            connection = socket.create_connection((host, int(port)), SYNC_TIMEOUT_S)
            connections.append(opened.enter_context(connection))
        links = [f"client:{endpoint}->{broker.id}" for broker in cluster.brokers]
        wait_for(lambda: all(cluster.network.connections(links).values()), "the proxies to take them", 10)
        yield connections


RUN = """
import sys
from pathlib import Path
from harness.cluster import ClusterSpec
from harness.cluster.local import LocalCluster
from harness.environment.cache import cache_folder
from harness.environment.versions import DEFAULT_KAFKA
from harness.environment.resources import PortBlock
from harness.environment.prepare import prepare
from harness.processes.spawn import Supervisor

ready = prepare(DEFAULT_KAFKA, "auto", "auto", cache_folder(), lambda words: None)
with Supervisor() as supervisor, PortBlock(ready.cache) as ports:
    with LocalCluster(ClusterSpec(brokers=1), Path(sys.argv[1]), ready, supervisor, ports.take) as cluster:
        cluster.brokers[0].pause()
        scratch = supervisor.scratch_folder("test")
        print(supervisor.mark, supervisor._guardian.pid, scratch, cluster.layout.toxiproxy, flush=True)
        sys.stdin.read()
"""


def test_a_killed_run_leaves_nothing_behind_and_does_not_affect_another_run(
    shared: LocalCluster, tmp_path: Path
) -> None:
    run = subprocess.Popen(
        [sys.executable, "-c", RUN, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert run.stdout is not None
    mark, guardian, scratch, toxiproxy = run.stdout.readline().decode().split()
    assert len([1 for _, whose in marked_processes() if whose == mark]) == 2
    assert shared.out_of_sync() == []
    os.kill(run.pid, signal.SIGKILL)
    run.wait()
    wait_for(lambda: start_time(int(guardian)) is None, "the end of the guardian", 30)
    assert not [process for process, whose in marked_processes() if whose == mark]
    assert not list(Path(scratch).parent.glob(f"fencepost-{mark}*"))
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", int(toxiproxy))) != 0
    assert shared.out_of_sync() == []


def test_a_reader_reads_the_current_start_of_a_log(shared: LocalCluster) -> None:
    bootstrap, partition = shared.bootstrap_for(ENDPOINT), ("small", 0)
    producer = Producer(librdkafka.idempotent_producer(ProducerSettings(bootstrap)))
    for _ in range(3):
        producer.produce(partition[0], b"x", partition=partition[1])
    assert producer.flush(30) == 0
    consumer = Consumer(librdkafka.reader(bootstrap, "reader", Isolation.READ_COMMITTED))
    with closing(consumer):
        assert log_start_offsets(consumer, [partition], 30) == {partition: 0}
        admin = AdminClient({"bootstrap.servers": bootstrap})  # it must exist until it gets the response
        (deleted,) = admin.delete_records([TopicPartition(*partition, 2)]).values()
        assert deleted.result(timeout=60).low_watermark == 2
        assert log_start_offsets(consumer, [partition, ("nowhere", 0), (partition[0], 99)], 30) == {
            partition: 2
        }
        unreachable = Consumer(librdkafka.reader("127.0.0.1:1", "reader", Isolation.READ_COMMITTED))
        assert log_start_offsets(unreachable, [partition], 0.5) == {}


def test_the_cluster_tries_again_if_a_port_is_taken_meanwhile(make: Make, ready: PreparedEnvironment) -> None:
    with PortBlock(ready.cache) as ports, socket.socket() as other_socket:
        first = ports.take()
        other_socket.bind(("127.0.0.1", first))
        other_socket.listen()
        prepared_ports = iter([first])
        with make(lambda: next(prepared_ports, None) or ports.take(), brokers=1) as cluster:
            assert first not in cluster.layout.listeners.values()
            assert cluster.out_of_sync() == []


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"settings": {"log.segment.bytes": "many"}}, "a broker setting is wrong.*log.segment.bytes"),
        ({"heap_mb": 1_000_000_000}, "not enough memory.*heap-mb"),
    ],
)
def test_the_message_about_a_broker_that_cannot_start_says_why(
    make: Make, spec: dict[str, object], words: str
) -> None:
    before = {process.pid for process, _ in marked_processes()}
    with pytest.raises(StartFailed, match=words) as refusal, make(**spec):
        pass
    assert "\n" not in str(refusal.value)
    left = [process for process, _ in marked_processes() if process.pid not in before]
    assert not [process for process in left if process.name() == "java"]
