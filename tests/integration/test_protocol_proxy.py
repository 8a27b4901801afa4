"""The proxies of an external cluster, on real brokers: their responses, the connections through them, and cuts."""

import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer, Producer
from kafka.protocol.metadata import MetadataRequest

from harness.clients import librdkafka
from harness.cluster import ClusterSpec
from harness.cluster.external import ClientLinks, ExternalCluster
from harness.cluster.local import LocalCluster
from harness.common.errors import StartFailed, UsageError
from harness.common.waiting import wait_for
from harness.environment import PreparedEnvironment
from harness.environment.cache import cache_folder
from harness.environment.prepare import prepare
from harness.environment.resources import PortBlock
from harness.environment.versions import DEFAULT_KAFKA
from harness.model.pipeline import TopicSpec
from harness.model.vocabulary import Isolation
from harness.network import EFFECTS, ActiveEffect, Cut, DropResponses, client_link
from harness.processes.spawn import Supervisor
from harness.protocol.responses import ADDRESS_APIS, HIDDEN_APIS
from harness.protocol.schemas import API_VERSIONS, Field, Schemas
from harness.wire.protocol import decode_response, encode_request, send_request
from tests.support.real_answers import (
    SingleReplica,
    create_single_replica,
    is_supported,
    raw_response,
    requests,
    supported_versions,
)

ENDPOINTS = ("w0", "w1")
TAG = "fencepost-proxied"
TOPIC = f"{TAG}-orders"
WITHIN_S = 30
DESCRIBE_QUORUM = 55
RANDOM = re.compile(r"controller_id=\d+")  # any live broker (KIP-590)


@pytest.fixture(scope="module")
def ready() -> PreparedEnvironment:
    return prepare(DEFAULT_KAFKA, "auto", "auto", cache_folder(), print)


@pytest.fixture(scope="module")
def clusters(
    ready: PreparedEnvironment, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[LocalCluster, ExternalCluster]]:
    """A cluster, and the same cluster as an external cluster whose client links can be cut."""
    folder = tmp_path_factory.mktemp("clusters")
    with Supervisor() as supervisor, PortBlock(ready.cache) as ports:
        links = ClientLinks(
            ENDPOINTS, folder / "proxies", ready.toxiproxy, ready.kafka.clients_jar, supervisor, ports.take
        )
        with LocalCluster(
            ClusterSpec(endpoints=("any",)), folder / "cluster", ready, supervisor, ports.take
        ) as cluster:
            spec = ClusterSpec(bootstrap=cluster.bootstrap, tag=TAG, permits=("links",))
            with ExternalCluster(spec, links) as proxied:
                proxied.create_topics([TopicSpec(TOPIC, 3)], 60)
                yield cluster, proxied


@pytest.fixture(scope="module")
def single_replica(clusters: tuple[LocalCluster, ExternalCluster]) -> SingleReplica:
    cluster, _ = clusters
    return create_single_replica(cluster.bootstrap, list(ports_of(cluster.bootstrap)))


def ports_of(bootstrap: str) -> list[int]:
    return [int(address.rpartition(":")[2]) for address in bootstrap.split(",")]


def test_responses_name_the_proxies_and_are_otherwise_unchanged(
    clusters: tuple[LocalCluster, ExternalCluster], single_replica: SingleReplica
) -> None:
    cluster, proxied = clusters
    broker_ports, proxy_ports = ports_of(cluster.bootstrap), ports_of(proxied.bootstrap_for("w1"))
    proxy_port_of = dict(zip(broker_ports, proxy_ports, strict=True))
    versions = supported_versions(broker_ports[0])
    compared = set()
    for port, request in requests(single_replica):
        if not is_supported(request, versions):
            continue
        at = port or broker_ports[0]
        direct, through = raw_response(at, request), raw_response(proxy_port_of[at], request)
        answer = decode_response(request, through, "the proxy")
        text = str(answer)
        assert not any(f"port={number}," in text or f"port={number})" in text for number in broker_ports), (
            text
        )
        if (request.API_KEY, request.version) in compared or request.API_KEY == 18:
            continue
        compared.add((request.API_KEY, request.version))
        assert any(f"port={number}" in text for number in proxy_ports), text
        expected = str(decode_response(request, direct, "the broker"))
        for broker_port, proxy_port in proxy_port_of.items():
            expected = expected.replace(f"port={broker_port}", f"port={proxy_port}")
        if request.API_KEY not in (1, 3):  # sessions, and the order of a set
            assert RANDOM.sub("", text) == RANDOM.sub("", expected)
    assert {key for key, _ in compared} == {0, 1, 3, 10, 60}


def test_a_proxy_offers_only_apis_that_it_can_read(clusters: tuple[LocalCluster, ExternalCluster]) -> None:
    cluster, proxied = clusters
    by_broker = supported_versions(ports_of(cluster.bootstrap)[0])
    by_proxy = supported_versions(ports_of(proxied.bootstrap_for("w0"))[0])
    assert set(by_broker) - set(by_proxy) == {key for key in HIDDEN_APIS if key in by_broker}
    assert {key for key in by_proxy if by_proxy[key] != by_broker[key]} == {DESCRIBE_QUORUM}


def test_every_response_with_addresses_is_rewritten_or_hidden(ready: PreparedEnvironment) -> None:
    schemas = Schemas.of_jar(ready.kafka.clients_jar)
    with_addresses = {
        api.key
        for api in schemas.apis.values()
        if has_address(api.response.fields) and api.response.versions.last >= 0
    }
    assert with_addresses - HIDDEN_APIS - {DESCRIBE_QUORUM} == ADDRESS_APIS - {API_VERSIONS}


def has_address(fields: Sequence[Field]) -> bool:
    """Return whether a message names the host and port of a broker."""
    names = {field.name for field in fields}
    return ({"Host", "Port"} <= names and bool(names & {"NodeId", "BrokerId"})) or any(
        has_address(field.fields) for field in fields
    )


def test_a_client_connects_only_to_the_proxies_and_a_cut_is_proved(
    clusters: tuple[LocalCluster, ExternalCluster],
) -> None:
    cluster, proxied = clusters
    assert proxied.abilities == EFFECTS
    assert sorted(proxied.network.links) == sorted(
        client_link(endpoint, n) for endpoint in ENDPOINTS for n in (1, 2, 3)
    )
    producer = Producer({"bootstrap.servers": proxied.bootstrap_for("w0"), "transactional.id": f"{TAG}-x"})
    consumer = Consumer(
        librdkafka.group_consumer(proxied.bootstrap_for("w0"), f"{TAG}-g", "x", Isolation.READ_COMMITTED)
    )
    with closing(consumer):
        consumer.subscribe([TOPIC])
        producer.init_transactions(WITHIN_S)
        producer.begin_transaction()
        for n in range(30):
            producer.produce(TOPIC, str(n), partition=n % 3)
        producer.commit_transaction(WITHIN_S)
        values: set[bytes] = set()

        def all_read() -> bool:
            message = consumer.poll(0.5)
            if message is not None and message.error() is None:
                values.add(message.value())
            return len(values) == 30

        wait_for(all_read, "all records", WITHIN_S)
        dialed = {link.raddr.port for link in psutil.Process().net_connections("tcp") if link.raddr}
        assert set(ports_of(proxied.bootstrap_for("w0"))) <= dialed
        assert not dialed & {*ports_of(cluster.bootstrap), *ports_of(cluster.bootstrap_for("any"))}
        for effect in (Cut(), DropResponses()):
            wait_for(lambda: all(connections_of(proxied).values()), "connections to all brokers", WITHIN_S)
            links = [client_link("w0", n) for n in (1, 2, 3)]
            with ExitStack() as opened:
                sockets = [
                    opened.enter_context(socket.create_connection(("127.0.0.1", port), WITHIN_S))
                    for port in ports_of(proxied.bootstrap_for("w0"))
                ]
                cut = opened.enter_context(proxied.network.impose(links, effect))

                def proved(
                    cut: ActiveEffect = cut, sockets: Sequence[socket.socket] = tuple(sockets)
                ) -> bool:
                    for connection in sockets:  # the client itself may wait for a response, and send nothing
                        connection.sendall(encode_request(MetadataRequest(version=0), 1))
                    return cut.evidence().count("a request through it stays unanswered") == 3

                wait_for(
                    proved,
                    "all three links to be used",
                    WITHIN_S,
                    last_seen=lambda cut=cut: cut.missing_proof,
                )
                assert send_request(
                    ports_of(proxied.bootstrap_for("w1"))[0], MetadataRequest(version=1), 5
                ).brokers
    assert not proxied.network.problem


def connections_of(cluster: ExternalCluster) -> Mapping[str, int]:
    return cluster.network.connections([client_link("w0", n) for n in (1, 2, 3)])


def test_bytes_that_are_no_kafka_request_end_only_their_connection(
    clusters: tuple[LocalCluster, ExternalCluster],
) -> None:
    _, proxied = clusters
    port = ports_of(proxied.bootstrap_for("w0"))[0]
    for sent_bytes in (
        b"GET / HTTP/1.0\r\n\r\n",
        encode_request(MetadataRequest(version=0), 1)[:9],
        b"\0\0\0\x04abcd",
    ):
        assert _send(port, sent_bytes) == b""
    assert send_request(port, MetadataRequest(version=1), 5).brokers


def _send(port: int, sent_bytes: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), 10) as connection:
        connection.sendall(sent_bytes)
        connection.shutdown(socket.SHUT_WR)
        return connection.recv(100)


def test_an_unknown_endpoint_has_no_address(
    clusters: tuple[LocalCluster, ExternalCluster],
) -> None:
    with pytest.raises(UsageError, match="no client endpoint w9"):
        clusters[1].bootstrap_for("w9")


def test_the_message_about_proxies_with_a_taken_port_says_so(
    clusters: tuple[LocalCluster, ExternalCluster], ready: PreparedEnvironment, tmp_path: Path
) -> None:
    cluster, _ = clusters
    taken = ports_of(cluster.bootstrap)[0]
    with Supervisor() as supervisor:
        links = ClientLinks(
            ("w0",), tmp_path, ready.toxiproxy, ready.kafka.clients_jar, supervisor, lambda: taken
        )
        spec = ClusterSpec(bootstrap=cluster.bootstrap, permits=("links",))
        with (
            pytest.raises(StartFailed, match="the protocol proxy did not start: a port is taken"),
            ExternalCluster(spec, links),
        ):
            pass
