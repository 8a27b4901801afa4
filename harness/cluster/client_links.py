"""The links between the clients of a run and an external cluster.

Every client endpoint has a toxiproxy listener for each broker. Toxiproxy forwards its connections to a port of the
protocol proxy (`harness.protocol.proxy`), which replaces the addresses in the broker's responses. So a client never
learns the broker's real address.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.cluster.protocol_proxy import ProtocolProxy
from harness.cluster.proxies import ToxiproxyServer, end_proxies
from harness.common.errors import UsageError
from harness.common.waiting import wait_for
from harness.network.links import client_link, proxy_name
from harness.network.proxied import ProxiedNetwork
from harness.network.toxiproxy import HOST, Proxy
from harness.processes.spawn import Supervisor
from harness.protocol.proxy import ProxyLink
from harness.wire.protocol import Address, is_answering

START_TIMEOUT_S = 30.0
PROBE_TIMEOUT_S = 2.0
"""Longer than for a local cluster, because a remote broker needs several round trips for TLS and SASL."""


@dataclass
class ClientLinks:
    """The processes that carry the links. Call `start`, then `end`. `end` may be called at any time."""

    endpoints: tuple[str, ...]
    folder: Path  # their logs and the journal of the protocol proxy are written here
    toxiproxy: Path  # the binary
    clients_jar: Path  # the jar of `kafka-clients`
    supervisor: Supervisor
    next_port: Callable[[], int]

    def __post_init__(self) -> None:
        self._ports: dict[str, dict[int, int]] = {}
        self._server: ToxiproxyServer | None = None
        self._proxy: ProtocolProxy | None = None

    def start(self, brokers: Mapping[int, Address], client_config: str | None) -> ProxiedNetwork:
        """Start toxiproxy and the protocol proxy for all endpoints and brokers. Raises `EnvironmentFailure`."""
        self._ports = {
            endpoint: {broker: self.next_port() for broker in brokers} for endpoint in self.endpoints
        }
        behind = [
            ProxyLink(
                name=client_link(endpoint, broker),
                port=self.next_port(),
                broker=(address.host, address.port),
                dial=self._ports[endpoint],
            )
            for endpoint in self.endpoints
            for broker, address in brokers.items()
        ]
        links = {
            link.name: Proxy(proxy_name(link.name), listen_port, link.port)
            for link, listen_port in zip(
                behind, (port for ports in self._ports.values() for port in ports.values()), strict=True
            )
        }
        config = Path(client_config) if client_config else None
        proxy = self._proxy = ProtocolProxy(self.clients_jar, self.folder, behind, config)
        proxy.start(self.supervisor)
        wait_for(
            lambda: all(is_answering(link.port, PROBE_TIMEOUT_S) for link in behind[: len(brokers)]),
            "every broker to answer through the proxies",
            START_TIMEOUT_S,
            last_seen=proxy.last_line,
        )
        self._server = ToxiproxyServer(self.toxiproxy, self.next_port(), self.folder)
        api = self._server.start(self.supervisor, links.values())
        return ProxiedNetwork(api, self._server, links, PROBE_TIMEOUT_S, proxy)

    def bootstrap_for(self, endpoint: str) -> str:
        """Return the bootstrap addresses of a client endpoint. Raises `UsageError` if there is no such endpoint."""
        if endpoint not in self._ports:
            raise UsageError(f"this cluster has no client endpoint {endpoint}")
        return ",".join(f"{HOST}:{port}" for port in self._ports[endpoint].values())

    def end(self) -> None:
        """End both processes. Failures are logged."""
        end_proxies(self._proxy, self._server)
