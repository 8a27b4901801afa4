"""The links between the clients of a run and an external cluster, so that each can be cut alone.

Every client endpoint has a toxiproxy listener for each broker. Toxiproxy forwards its connections to a port of the
address proxy (`harness.network.kafka_proxy`). The address proxy replaces the addresses in the broker's responses, so a
client never learns the broker's real address.
"""

import logging
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.cluster.proxies import ToxiproxyServer
from harness.cluster.start_diagnosis import diagnosis
from harness.common.errors import EnvironmentFailure, StartFailed, UsageError
from harness.common.waiting import wait_for
from harness.network.kafka_proxy import LISTENING, ProxySpec
from harness.network.links import client_link, proxy_name
from harness.network.proxied import ProxiedNetwork
from harness.network.toxiproxy import HOST, Proxy, Toxiproxy
from harness.processes.child import Child
from harness.processes.encoding import encode
from harness.processes.spawn import Supervisor
from harness.wire.protocol import Address, is_answering

PROGRAM = "harness.network.kafka_proxy"
START_TIMEOUT_S = 30.0
PROBE_TIMEOUT_S = 2.0
"""Longer than for a local cluster, because a remote broker needs several round trips for TLS and SASL."""
_log = logging.getLogger(__name__)


class ClientNetwork(ProxiedNetwork):
    """A network that has links from clients to brokers, and none between brokers."""

    def __init__(
        self, toxiproxy: Toxiproxy, server: ToxiproxyServer, address_proxy: Child, links: Mapping[str, Proxy]
    ) -> None:
        super().__init__(toxiproxy, server, links, PROBE_TIMEOUT_S)
        self._address_proxy = address_proxy

    @property
    def alive(self) -> bool:
        """Whether both processes that carry the links still run."""
        return super().alive and self._address_proxy.poll() is None


@dataclass
class ClientLinks:
    """The processes that carry the links. Call `start`, then `end`. `end` may be called at any time."""

    endpoints: tuple[str, ...]
    folder: Path  # their logs are written here
    toxiproxy: Path  # the binary
    supervisor: Supervisor
    next_port: Callable[[], int]

    def __post_init__(self) -> None:
        self._ports: dict[str, dict[int, int]] = {}
        self._server: ToxiproxyServer | None = None
        self._proxy: Child | None = None

    def start(self, brokers: Mapping[int, Address], client_config: str | None) -> ClientNetwork:
        """Start toxiproxy and the address proxy for all endpoints and brokers. Raises `EnvironmentFailure`."""
        proxy_ports = {
            endpoint: {broker: self.next_port() for broker in brokers} for endpoint in self.endpoints
        }
        self._ports = {
            endpoint: {broker: self.next_port() for broker in brokers} for endpoint in self.endpoints
        }
        links = {
            client_link(endpoint, broker): Proxy(
                proxy_name(client_link(endpoint, broker)), port, proxy_ports[endpoint][broker]
            )
            for endpoint, ports in self._ports.items()
            for broker, port in ports.items()
        }
        self._proxy = self._start_address_proxy(
            ProxySpec(
                Path(client_config) if client_config else None,
                {broker: (address.host, address.port) for broker, address in brokers.items()},
                proxy_ports,
                self._ports,
            )
        )
        self._server = ToxiproxyServer(self.toxiproxy, self.next_port(), self.folder)
        api = self._server.start(self.supervisor, links.values())
        return ClientNetwork(api, self._server, self._proxy, links)

    def bootstrap_for(self, endpoint: str) -> str:
        """Return the bootstrap addresses of a client endpoint. Raises `UsageError` if there is no such endpoint."""
        if endpoint not in self._ports:
            raise UsageError(f"this cluster has no client endpoint {endpoint}")
        return ",".join(f"{HOST}:{port}" for port in self._ports[endpoint].values())

    def end(self) -> None:
        """End both processes. Failures are logged."""
        for end in (self._proxy.kill if self._proxy else None, self._server.end if self._server else None):
            try:
                if end is not None:
                    end()
            except EnvironmentFailure as error:
                _log.error("a proxy of the run could not be ended: %s", error)

    def _start_address_proxy(self, spec: ProxySpec) -> Child:
        """Start the address proxy, and wait until every broker has answered through it."""
        log = self.folder / "kafka-proxy.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-P", "-m", PROGRAM, encode(spec).decode()]
        child = self.supervisor.spawn(command, name="kafka-proxy", log_file=log)

        (ports, *_) = spec.ports.values()

        def all_answer() -> bool:
            text = log.read_text(errors="replace")
            if child.poll() is not None:
                raise StartFailed(f"the proxies did not start: {diagnosis(text)}; their log is {log}")
            return LISTENING in text and all(is_answering(port, PROBE_TIMEOUT_S) for port in ports.values())

        wait_for(
            all_answer,
            "every broker to answer through the proxies",
            START_TIMEOUT_S,
            last_seen=lambda: diagnosis(log.read_text(errors="replace")),
        )
        return child
