"""The proxies before a cluster that is already there, on real brokers: what they tell, carry and cut."""

import json
import re
import socket
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import Consumer, Producer
from kafka.protocol.metadata import MetadataRequest

from harness.clients import librdkafka
from harness.cluster import ClusterSpec
from harness.cluster.client_links import ClientLinks
from harness.cluster.external import ExternalCluster
from harness.cluster.local import LocalCluster
from harness.common.errors import StartFailed, UsageError
from harness.common.waiting import wait_for
from harness.environment import PreparedEnvironment
from harness.environment.cache import cache_folder
from harness.environment.ports import PortBlock
from harness.environment.prepare import prepare
from harness.model.pipeline import TopicSpec
from harness.model.vocabulary import Isolation
from harness.network import ActiveEffect, Cut, DropResponses
from harness.network.kafka_answers import contains_addresses
from harness.network.kafka_apis import DESCRIBE_QUORUM, HIDDEN_APIS, UNCHANGED_APIS, newest_version
from harness.network.links import client_link
from harness.processes.spawn import Supervisor
from harness.wire.protocol import decode_response, encode_request, send_request
from tests.support.real_answers import Place, may_be_asked, one_replica, questions, raw, spoken

ENDPOINTS = ("w0", "w1")
TAG = "fencepost-proxied"
TOPIC = f"{TAG}-orders"
WITHIN_S = 30
RANDOM = re.compile(r"controller_id=\d+")  # any live broker (KIP-590)


@pytest.fixture(scope="module")
def ready() -> PreparedEnvironment:
    return prepare("4.3.1", "auto", "auto", cache_folder(), print)


@pytest.fixture(scope="module")
def clusters(
    ready: PreparedEnvironment, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[LocalCluster, ExternalCluster]]:
    """Theirs, and as a run sees it that may strike its links."""
    place = tmp_path_factory.mktemp("clusters")
    with Supervisor() as supervisor, PortBlock(ready.cache) as ports:
        links = ClientLinks(ENDPOINTS, place / "proxies", ready.toxiproxy, supervisor, ports.take)
        with LocalCluster(
            ClusterSpec(endpoints=("any",)), place / "theirs", ready, supervisor, ports.take
        ) as theirs:
            spec = ClusterSpec(bootstrap=theirs.bootstrap, tag=TAG, permits=("links",))
            with ExternalCluster(spec, links) as ours:
                ours.create_topics([TopicSpec(TOPIC, 3)], 60)
                yield theirs, ours


@pytest.fixture(scope="module")
def place(clusters: tuple[LocalCluster, ExternalCluster]) -> Place:
    theirs, _ = clusters
    return one_replica(theirs.bootstrap, list(ports_of(theirs.bootstrap)))


def ports_of(bootstrap: str) -> list[int]:
    return [int(one.rpartition(":")[2]) for one in bootstrap.split(",")]


def test_every_answer_names_the_proxies_and_is_the_same_otherwise(
    clusters: tuple[LocalCluster, ExternalCluster], place: Place
) -> None:
    theirs, ours = clusters
    real, told = ports_of(theirs.bootstrap), ports_of(ours.bootstrap_for("w1"))
    behind = dict(zip(real, told, strict=True))
    versions = spoken(real[0])
    seen = set()
    for port, request in questions(place):
        if not may_be_asked(request, versions):
            continue
        at = port or real[0]
        direct, through = raw(at, request), raw(behind[at], request)
        answer = decode_response(request, through, "the proxy")
        text = str(answer)
        assert not any(f"port={one}," in text or f"port={one})" in text for one in real), text
        if (request.API_KEY, request.version) in seen or request.API_KEY == 18:
            continue
        seen.add((request.API_KEY, request.version))
        assert any(f"port={one}" in text for one in told), text
        wanted = str(decode_response(request, direct, "the broker"))
        for one, instead in behind.items():
            wanted = wanted.replace(f"port={one}", f"port={instead}")
        if request.API_KEY not in (1, 3):  # sessions, and the order of a set
            assert RANDOM.sub("", text) == RANDOM.sub("", wanted)
    assert {key for key, _ in seen} == {0, 1, 3, 10, 60}


def test_what_a_proxy_offers_is_what_it_can_read(clusters: tuple[LocalCluster, ExternalCluster]) -> None:
    theirs, ours = clusters
    real = spoken(ports_of(theirs.bootstrap)[0])
    offered = spoken(ports_of(ours.bootstrap_for("w0"))[0])
    assert set(real) - set(offered) == {key for key in HIDDEN_APIS if key in real}
    assert {key for key in offered if offered[key] != real[key]} == {DESCRIBE_QUORUM}


def test_every_answer_of_this_kafka_that_has_addresses_is_known(ready: PreparedEnvironment) -> None:
    """By the schemas that Kafka's own classes were made from."""
    jar = next(path for path in ready.kafka.class_path if re.match(r"kafka-clients-\d", Path(path).name))
    with zipfile.ZipFile(jar) as archive:
        schemas = [_schema(archive.read(name)) for name in archive.namelist() if name.endswith(".json")]
    answers = [one for one in schemas if one["type"] == "response" and one["validVersions"] != "none"]
    assert len(answers) > 80
    for one in answers:
        key, last = one["apiKey"], int(one["validVersions"].rpartition("-")[2])
        if key in HIDDEN_APIS:
            continue
        assert newest_version(key) == (1 if key == DESCRIBE_QUORUM else last), one["name"]
        structs = {kind["name"]: kind["fields"] for kind in one.get("commonStructs", [])}
        versions = [
            v for v in range(newest_version(key) + 1) if _has_address(one.get("fields", []), structs, v)
        ]
        assert key in UNCHANGED_APIS or all(contains_addresses(key, v) for v in versions), one["name"]


def _schema(text: bytes) -> dict[str, Any]:
    lines = [re.sub(r"^\s*//.*$|(?<=[,\[{}\]])\s*//.*$", "", line) for line in text.decode().splitlines()]
    return dict(json.loads("\n".join(lines)))


def _has_address(fields: list[Any], structs: Mapping[str, list[Any]], version: int) -> bool:
    there = [one for one in fields if _in(version, one["versions"])]
    names = {one["name"] for one in there}
    return {"Host", "Port"} <= names or any(
        _has_address(one.get("fields", structs.get(one["type"].removeprefix("[]"), [])), structs, version)
        for one in there
    )


def _in(version: int, versions: str) -> bool:
    low, _, high = versions.rstrip("+").partition("-")
    return int(low) <= version and (versions.endswith("+") or version <= int(high or low))


def test_a_client_goes_through_the_proxies_alone_and_a_cut_is_proven(
    clusters: tuple[LocalCluster, ExternalCluster],
) -> None:
    theirs, ours = clusters
    assert ours.abilities == {Cut, DropResponses}
    assert sorted(ours.network.links) == sorted(
        client_link(endpoint, n) for endpoint in ENDPOINTS for n in (1, 2, 3)
    )
    producer = Producer({"bootstrap.servers": ours.bootstrap_for("w0"), "transactional.id": f"{TAG}-x"})
    consumer = Consumer(
        librdkafka.group_consumer(ours.bootstrap_for("w0"), f"{TAG}-g", "x", Isolation.READ_COMMITTED)
    )
    with closing(consumer):
        consumer.subscribe([TOPIC])
        producer.init_transactions(WITHIN_S)
        producer.begin_transaction()
        for n in range(30):
            producer.produce(TOPIC, str(n), partition=n % 3)
        producer.commit_transaction(WITHIN_S)
        found: set[bytes] = set()

        def all_read() -> bool:
            message = consumer.poll(0.5)
            if message is not None and message.error() is None:
                found.add(message.value())
            return len(found) == 30

        wait_for(all_read, "all records", WITHIN_S)
        dialed = {one.raddr.port for one in psutil.Process().net_connections("tcp") if one.raddr}
        assert set(ports_of(ours.bootstrap_for("w0"))) <= dialed
        assert not dialed & {*ports_of(theirs.bootstrap), *ports_of(theirs.bootstrap_for("any"))}
        for effect in (Cut(), DropResponses()):
            wait_for(lambda: all(stand(ours).values()), "connections to all brokers", WITHIN_S)
            links = [client_link("w0", n) for n in (1, 2, 3)]
            with ExitStack() as opened:
                own = [
                    opened.enter_context(socket.create_connection(("127.0.0.1", port), WITHIN_S))
                    for port in ports_of(ours.bootstrap_for("w0"))
                ]
                cut = opened.enter_context(ours.network.impose(links, effect))

                def proven(cut: ActiveEffect = cut, own: Sequence[socket.socket] = tuple(own)) -> bool:
                    for one in own:  # the client itself may wait for an answer, and send nothing
                        one.sendall(encode_request(MetadataRequest(version=0), 1))
                    return cut.evidence().count("a request through it stays unanswered") == 3

                wait_for(
                    proven,
                    "all three links to be used",
                    WITHIN_S,
                    last_seen=lambda cut=cut: cut.missing_proof,
                )
                assert send_request(
                    ports_of(ours.bootstrap_for("w1"))[0], MetadataRequest(version=1), 5
                ).brokers
    assert ours.network.alive


def stand(cluster: ExternalCluster) -> Mapping[str, int]:
    return cluster.network.connections([client_link("w0", n) for n in (1, 2, 3)])


def test_what_is_no_request_of_kafkas_ends_its_connection_alone(
    clusters: tuple[LocalCluster, ExternalCluster],
) -> None:
    _, ours = clusters
    port = ports_of(ours.bootstrap_for("w0"))[0]
    for noise in (
        b"GET / HTTP/1.0\r\n\r\n",
        encode_request(MetadataRequest(version=0), 1)[:9],
        b"\0\0\0\x04abcd",
    ):
        assert _sent(port, noise) == b""
    assert send_request(port, MetadataRequest(version=1), 5).brokers


def _sent(port: int, noise: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), 10) as connection:
        connection.sendall(noise)
        connection.shutdown(socket.SHUT_WR)
        return connection.recv(100)


def test_a_endpoint_that_nobody_asked_for_has_no_address(
    clusters: tuple[LocalCluster, ExternalCluster],
) -> None:
    with pytest.raises(UsageError, match="no client endpoint w9"):
        clusters[1].bootstrap_for("w9")


def test_proxies_whose_port_is_taken_are_told(
    clusters: tuple[LocalCluster, ExternalCluster], ready: PreparedEnvironment, tmp_path: Path
) -> None:
    theirs, _ = clusters
    taken = ports_of(theirs.bootstrap)[0]
    with Supervisor() as supervisor:
        links = ClientLinks(("w0",), tmp_path, ready.toxiproxy, supervisor, lambda: taken)
        spec = ClusterSpec(bootstrap=theirs.bootstrap, permits=("links",))
        with (
            pytest.raises(StartFailed, match="the proxies did not start: a port is taken"),
            ExternalCluster(spec, links),
        ):
            pass
