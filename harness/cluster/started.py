"""The base of clusters that a run starts itself, as processes or containers, with a proxy in every link."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Generic, Protocol, Self, TypeVar

from harness.cluster import Broker, ClusterSpec, admin
from harness.cluster.config import Hosts, PortLayout, lay_out
from harness.cluster.proxies import ProtocolProxy
from harness.cluster.questions import ClusterQueries
from harness.cluster.started_node import START_TIMEOUT_S, PortTaken, feature_files
from harness.common.errors import StartFailed, UsageError, WaitTimeout
from harness.common.waiting import wait_for
from harness.environment import PreparedEnvironment
from harness.environment.java import STORAGE_TOOL, broker_command
from harness.environment.kafka import KafkaDistribution
from harness.environment.resources import can_listen
from harness.model.promises import FETCH
from harness.network.networks import ProxiedNetwork
from harness.network.toxiproxy import HOST
from harness.processes.spawn import Supervisor
from harness.wire.protocol import WireError
from harness.witness import Witness
from harness.witness.fetch_witness import FetchWitness

_log = logging.getLogger(__name__)


class StartingNode(Broker, Protocol):
    """A broker that is being started."""

    def begin(self) -> None:
        """Start it without waiting."""
        ...

    def check_started(self) -> None:
        """Raise `StartFailed` if it has ended. Raise `PortTaken` if it may start with other ports."""
        ...

    def started(self) -> bool:
        """Return whether it has printed that it is up. Then all its listeners are bound."""
        ...


N = TypeVar("N", bound=StartingNode)


class StartedCluster(ClusterQueries, ABC, Generic[N]):
    """A cluster of brokers and a toxiproxy server that the run starts.

    Entering it waits until every broker sees all brokers registered. Leaving it ends everything. Data and logs stay in
    the folder.
    """

    layout: PortLayout
    network: ProxiedNetwork
    hosts = Hosts()
    _protocol_proxy: ProtocolProxy | None = None

    def __init__(
        self,
        spec: ClusterSpec,
        folder: Path,
        prepared: PreparedEnvironment,
        supervisor: Supervisor,
        next_port: Callable[[], int],
    ) -> None:
        super().__init__({}, {}, self._is_up)  # there are no brokers yet
        self._spec = spec
        self._folder = folder
        self._prepared = prepared
        self._supervisor = supervisor
        self._next_port = next_port
        self._last_ports: list[int] = []
        self._nodes: list[N] = []

    def __enter__(self) -> Self:
        try:
            try:
                self._start()
            except PortTaken as error:
                _log.info("the cluster is started again with other ports: %s", error)
                self._end()
                self._discard_first_start()
                self._start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    @property
    def brokers(self) -> Sequence[N]:
        """The brokers in the order of their node ids, which begin at 1."""
        return tuple(self._nodes)

    @property
    def bootstrap(self) -> str:
        """The addresses at which the harness reaches every broker, without a proxy."""
        return self.layout.bootstrap()

    def bootstrap_for(self, endpoint: str) -> str:
        """Return the addresses of a client endpoint's proxies. Raises `UsageError` if there is no such endpoint."""
        if endpoint not in self.layout.endpoints:
            raise UsageError(f"this cluster has no client endpoint {endpoint}")
        return self.layout.bootstrap_for(endpoint)

    def witness(self) -> Witness:
        """Return a witness that reads all segment files, or fetches from the leaders, as the spec says."""
        return FetchWitness(self._brokers) if self._spec.witness == FETCH else self._segments()

    @abstractmethod
    def _segments(self) -> Witness:
        """Return a witness that reads the segment files."""

    @abstractmethod
    def _start_proxies(self) -> ProxiedNetwork:
        """Start toxiproxy with a proxy in every link. Raises `PortTaken` or `StartFailed`."""

    def _start_protocol_proxy(self, *hosts: str) -> ProtocolProxy | None:
        """Start the protocol proxy, which listens on 127.0.0.1 and on `hosts`. None if no link passes through it.

        Raises `StartFailed`.
        """
        if not self.layout.protocol_links:
            return None
        jar = self._prepared.kafka.clients_jar
        proxy = ProtocolProxy(jar, self._folder, self.layout.protocol_links, hosts=(HOST, *hosts))
        self._protocol_proxy = proxy
        proxy.start(self._supervisor)
        return proxy

    @abstractmethod
    def _make_nodes(self) -> list[N]:
        """Create the nodes without starting them."""

    @abstractmethod
    def _discard_first_start(self) -> None:
        """Remove the files of a failed first start, after its processes have ended."""

    @abstractmethod
    def _end(self) -> None:
        """End everything that runs. Failures are logged."""

    def _is_up(self, broker: int) -> bool:
        return self._nodes[broker - 1].running

    def _start(self) -> None:
        self.layout = lay_out(
            self._spec.brokers, self._spec.endpoints, self._port_source(), self.hosts, self._spec.decoded
        )
        self._brokers = {broker: self.layout.harness_port(broker) for broker in self.layout.brokers}
        self._controllers = {broker: self.layout.controller_port(broker) for broker in self.layout.voters}
        self._folder.mkdir(parents=True, exist_ok=True)
        self.network = self._start_proxies()
        self._nodes = self._make_nodes()
        for node in self._nodes:
            node.begin()
        self._await_registered()

    def _port_source(self) -> Callable[[], int]:
        """Return a function that returns a port: first those of a failed start that are free now, then new ones."""
        free = iter([port for port in self._last_ports if can_listen(port)])

        def next_port() -> int:
            port = next(free, None) or self._next_port()
            self._last_ports.append(port)
            return port

        self._last_ports = []
        return next_port

    def _feature_files(self, other: KafkaDistribution | None = None) -> dict[str, bytes]:
        """Return the files with the features of a new cluster, from the cache or from Kafka's own tool.

        `other`: the version of Kafka that writes them. None: the version at the start, with the user's features.
        """
        prepared, kafka = self._prepared, other or self._prepared.kafka

        def storage_tool(folder: Path) -> list[str]:
            return broker_command(prepared.java, kafka, main=STORAGE_TOOL, args=[], folder=folder)

        transaction_version = None if other else self._spec.transaction_version
        return feature_files(prepared.cache, kafka.version, storage_tool, transaction_version)

    def _await_registered(self) -> None:
        """Wait until every broker sees all brokers registered. Raises `StartFailed`."""
        brokers = self.layout.brokers
        state: list[str] = []

        def all_registered() -> bool:
            for node in self._nodes:
                node.check_started()
            views = admin.fetch_views(self._brokers)
            state[:] = [_describe(broker, view) for broker, view in views.items()]
            registered = (
                isinstance(view, admin.BrokerView) and view.brokers == brokers for view in views.values()
            )
            return all(registered) and all(node.started() for node in self._nodes)

        try:
            # More than three brokers share the same cores, so they start more slowly.
            timeout_s = START_TIMEOUT_S * max(1.0, len(brokers) / 3)
            wait_for(all_registered, "all brokers to be registered", timeout_s, last_seen=lambda: state)
        except WaitTimeout as error:
            logs = f"the brokers' logs are {self._folder / 'brokers'}/*/server.log"
            raise StartFailed(f"the cluster did not start: {error}; {logs}") from error


def _describe(broker: int, view: admin.BrokerView | WireError) -> str:
    if isinstance(view, WireError):
        return f"broker {broker} does not answer"
    return f"broker {broker} sees brokers {', '.join(map(str, view.brokers)) or 'none'}"
