"""Each network effect on a real toxiproxy, between a client and a server that both know only the framing of Kafka."""

import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from harness.cluster.proxies import ToxiproxyServer
from harness.common.waiting import wait_for
from harness.environment.cache import cache_folder
from harness.environment.resources import PortBlock
from harness.environment.toxiproxy import find_toxiproxy
from harness.network import (
    TOXICS,
    ActiveEffect,
    Bandwidth,
    Cut,
    DropOneWay,
    DropResponses,
    HalfOpen,
    Latency,
    LinkEffect,
    RefuseConnections,
    ResetConnections,
    Slices,
    client_link,
    proxy_name,
)
from harness.network.networks import ProxiedNetwork
from harness.network.toxiproxy import Proxy
from harness.network.traffic import ProbeEnding, probe
from harness.processes.spawn import Supervisor
from harness.wire.protocol import HOST
from tests.support.conformance.means import becomes_true

LINK, IDLE_LINK = client_link("w0", 1), client_link("w1", 1)
WITHIN_S = 10.0
RESPONSE = bytes(600)


class Handler(socketserver.StreamRequestHandler):
    """Answers each request with its correlation id and 600 bytes."""

    server: "Broker"

    def handle(self) -> None:
        try:
            while size := self.rfile.read(4):
                request = self.rfile.read(int.from_bytes(size))
                self.server.request_bytes += len(request)
                self.wfile.write((4 + len(RESPONSE)).to_bytes(4) + request[4:8] + RESPONSE)
        except OSError:
            return


class Broker(socketserver.ThreadingTCPServer):
    daemon_threads = True
    request_bytes = 0  # how many have arrived


@dataclass
class Client:
    """Sends a request on one connection again and again, and connects anew if it ends or gets no response."""

    port: int
    timeout_s: float
    stop: threading.Event = field(default_factory=threading.Event)
    answers: int = 0
    connections: int = 0

    def run(self) -> None:
        while not self.stop.is_set():
            try:
                with socket.create_connection((HOST, self.port), self.timeout_s) as connection:
                    self.connections += 1
                    while not self.stop.wait(0.01):
                        connection.sendall((108).to_bytes(4) + bytes(108))
                        answer = connection.recv(1 << 16)
                        while answer and len(answer) < 8 + len(RESPONSE):
                            answer += connection.recv(1 << 16)
                        if not answer:
                            break
                        self.answers += 1
            except OSError:
                self.stop.wait(0.02)


@dataclass
class UsedLink:
    """A link on which a client sends requests to a broker."""

    network: ProxiedNetwork
    broker: Broker
    client: Client


@pytest.fixture(scope="module")
def brokers() -> Iterator[list[Broker]]:
    """Two brokers: one for each link, because bytes are counted by port."""
    with Broker((HOST, 0), Handler) as first, Broker((HOST, 0), Handler) as second:
        for broker in (first, second):
            threading.Thread(target=broker.serve_forever, args=(0.01,), daemon=True).start()
        yield [first, second]
        for broker in (first, second):
            broker.shutdown()


@pytest.fixture(scope="module")
def network(brokers: list[Broker], tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProxiedNetwork]:
    binary = find_toxiproxy("auto", cache_folder())
    with PortBlock(cache_folder()) as ports, Supervisor() as supervisor:
        links = {
            link: Proxy(proxy_name(link), ports.take(), broker.server_address[1])
            for link, broker in zip((LINK, IDLE_LINK), brokers, strict=True)
        }
        server = ToxiproxyServer(binary, ports.take(), tmp_path_factory.mktemp("toxiproxy"))
        yield ProxiedNetwork(server.start(supervisor, links.values()), server, links)
        server.end()


@contextmanager
def in_use(network: ProxiedNetwork, brokers: list[Broker], timeout_s: float) -> Iterator[UsedLink]:
    """Let a client use the first link. After `timeout_s` without a response it connects anew."""
    client = Client(network._links[LINK].listen_port, timeout_s)
    thread = threading.Thread(target=client.run, daemon=True)
    thread.start()
    try:
        wait_for(lambda: client.answers > 3, "answers", WITHIN_S)
        yield UsedLink(network, brokers[0], client)
    finally:
        client.stop.set()
        network.heal()
        thread.join(WITHIN_S)


def proof_of(active: ActiveEffect) -> str:
    """Wait for the evidence."""
    return wait_for(active.evidence, "a proof", WITHIN_S, last_seen=lambda: active.missing_proof)


STOPPING: dict[LinkEffect, str] = {
    Cut(): "a request through it stays unanswered",
    DropResponses(): "a request through it stays unanswered",
    DropOneWay(): "a request through it stays unanswered",
    DropOneWay(frozenset({LINK})): "a request through it stays unanswered",
    ResetConnections(): "a request through it is reset",
    RefuseConnections(): "a request through it is refused",
}
PASSING: dict[LinkEffect, str] = {
    Latency(120, 20): "a request through it takes ",
    Bandwidth(100): "a request through it takes ",
    Slices(100): "a response through it comes in ",
}
DELIVERING = (DropResponses(), DropOneWay(frozenset({LINK})))
"""Requests arrive, and only their responses are lost."""


def test_every_effect_is_tested_here() -> None:
    assert {type(effect) for effect in (*PASSING, *STOPPING, HalfOpen())} == TOXICS.keys()


@pytest.mark.parametrize("effect", STOPPING, ids=repr)
def test_an_effect_that_stops_a_link_is_proved_and_healed(
    effect: LinkEffect, network: ProxiedNetwork, brokers: list[Broker]
) -> None:
    with in_use(network, brokers, timeout_s=0.3) as link:
        with network.impose([LINK], effect) as active:
            evidence = proof_of(active)
            assert evidence.startswith(LINK) and STOPPING[effect] in evidence
            answers, arrived = link.client.answers, link.broker.request_bytes
            assert not becomes_true(lambda: link.client.answers > answers, 0.5)
            assert (link.broker.request_bytes > arrived) == (effect in DELIVERING)
        wait_for(lambda: link.client.answers > answers, "answers after the heal", WITHIN_S)


@pytest.mark.parametrize("effect", PASSING, ids=repr)
def test_an_effect_that_lets_bytes_pass_is_proved_and_ends_no_connection(
    effect: LinkEffect, network: ProxiedNetwork, brokers: list[Broker]
) -> None:
    with in_use(network, brokers, timeout_s=60.0) as link:
        connections = link.client.connections
        with network.impose([LINK], effect) as active:
            evidence = proof_of(active)
            assert evidence.startswith(LINK) and PASSING[effect] in evidence
            answers = link.client.answers
            wait_for(lambda: link.client.answers > answers, "an answer meanwhile", WITHIN_S)
        assert active.evidence() == ""
        answers = link.client.answers
        wait_for(lambda: link.client.answers > answers, "answers after the heal", WITHIN_S)
        assert link.client.connections == connections


def test_the_delay_of_a_slow_link_is_within_its_bounds(
    network: ProxiedNetwork, brokers: list[Broker]
) -> None:
    with in_use(network, brokers, timeout_s=60.0), network.impose([LINK], Latency(120, 20)):
        elapsed_s = [network.probe(LINK, 2).elapsed_s for _ in range(5)]
        assert all(0.19 < each_s < 2 for each_s in elapsed_s) and min(elapsed_s) < 0.4


def test_only_the_existing_connections_become_half_open(
    network: ProxiedNetwork, brokers: list[Broker]
) -> None:
    with in_use(network, brokers, timeout_s=60.0) as link:
        with network.impose([LINK], HalfOpen()) as active:
            evidence = proof_of(active)
            assert "the dialing end of 1 connection stayed open" in evidence
            assert network.probe(LINK, 2).is_answered
            answers, arrived = link.client.answers, link.broker.request_bytes
            assert not becomes_true(lambda: link.client.answers > answers, 0.5)
            assert link.broker.request_bytes == arrived
        wait_for(lambda: link.client.answers > answers, "answers after the heal", WITHIN_S)


@pytest.mark.parametrize("effect", [*STOPPING, *PASSING, HalfOpen()], ids=repr)
def test_an_effect_on_a_link_that_nobody_uses_is_not_proved(
    effect: LinkEffect, network: ProxiedNetwork, brokers: list[Broker]
) -> None:
    with in_use(network, brokers, timeout_s=60.0):
        with network.impose([IDLE_LINK], effect) as active:
            assert active.evidence() == "" and IDLE_LINK in active.missing_proof
        assert network.probe(IDLE_LINK, 2).is_answered


def test_effects_with_the_same_toxics_overlap_and_each_is_healed(
    network: ProxiedNetwork, brokers: list[Broker]
) -> None:
    with in_use(network, brokers, timeout_s=0.3):
        with network.impose([LINK], RefuseConnections()):
            with network.impose([LINK], RefuseConnections()):
                pass
            assert network.probe(LINK).ending is ProbeEnding.REFUSED
        assert network.probe(LINK, 2).is_answered
        with network.impose([LINK], RefuseConnections()):
            network.heal()
            assert network.probe(LINK, 2).is_answered


def test_a_probe_says_how_it_ended_and_can_be_long(brokers: list[Broker]) -> None:
    with socket.create_server((HOST, 0)) as server:
        port = server.getsockname()[1]
        assert probe(port, 0.1).ending is ProbeEnding.UNANSWERED
    assert probe(port, 0.1).ending is ProbeEnding.REFUSED
    padded = probe(brokers[0].server_address[1], 2, padding_bytes=100_000)
    assert padded.is_answered and brokers[0].request_bytes > 100_000
