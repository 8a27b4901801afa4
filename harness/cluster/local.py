"""Kafka nodes as JVM processes of this machine; every link between them and to them is its own proxy.

No root and no Docker. A context manager: entered, all brokers are registered in every broker's own
view; left, no process is left. Their data and logs stay in the folder that was given.
"""

import logging
import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from types import TracebackType

import psutil

from harness.clients.wire import WireError
from harness.cluster import Ability, ClusterSpec, admin
from harness.cluster.config import Layout, lay_out, properties
from harness.cluster.node import START_TIMEOUT_S, LocalBroker, PortTaken
from harness.cluster.proxies import ToxiproxyServer
from harness.cluster.questions import Questions
from harness.cluster.storage import features, format_node, new_id
from harness.environment import Prepared
from harness.environment.jvm import STORAGE_TOOL, broker_command
from harness.environment.ports import listens
from harness.errors import EnvironmentFailure, StartFailed, UsageError, WaitTimeout
from harness.network.local import LocalNetwork
from harness.processes.spawn import Supervisor
from harness.promises import FETCH
from harness.waiting import wait_for
from harness.witness import Witness
from harness.witness.fetch_witness import FetchWitness
from harness.witness.request_log import Spoken, spoken
from harness.witness.segment_witness import SegmentWitness

REQUESTS = "requests.log"
"""In a broker's folder: the requests that it answered, while they are recorded."""
_log = logging.getLogger(__name__)


class LocalCluster(Questions):
    """A cluster in a folder of its own, of processes that a supervisor guards."""

    layout: Layout
    network: LocalNetwork

    def __init__(
        self,
        spec: ClusterSpec,
        folder: Path,
        prepared: Prepared,
        supervisor: Supervisor,
        next_port: Callable[[], int],
    ) -> None:
        super().__init__({}, {}, self._is_up)  # nobody to ask yet
        self._spec = spec
        self._folder = folder
        self._prepared = prepared
        self._supervisor = supervisor
        self._next_port = next_port
        self._taken: list[int] = []
        self._nodes: list[LocalBroker] = []
        self._toxiproxy: ToxiproxyServer | None = None

    def __enter__(self) -> "LocalCluster":
        try:
            try:
                self._start()
            except PortTaken as error:
                _log.info("trying other ports: %s", error)
                self._end()
                for node in self._nodes:
                    shutil.rmtree(node.data_dir)
                self._start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    can = frozenset(Ability)

    def witness(self) -> Witness:
        """The segment files of every broker, or what the leaders give, as the spec asks."""
        return FetchWitness(self._brokers) if self._spec.witness == FETCH else SegmentWitness()

    @property
    def brokers(self) -> Sequence[LocalBroker]:
        """By node id, from 1."""
        return tuple(self._nodes)

    @property
    def bootstrap(self) -> str:
        """The harness's own listener on every broker, which no proxy stands before."""
        return self.layout.bootstrap()

    def bootstrap_for(self, slot: str) -> str:
        """The listener of one client slot, behind proxies of its own."""
        if slot not in self.layout.slots:
            raise UsageError(f"this cluster has no client slot {slot}")
        return self.layout.bootstrap_for(slot)

    def spoken(self, slots: Sequence[str]) -> Spoken:
        """What the brokers wrote down of these client slots since it was last asked."""
        with ExitStack() as opened:
            logs = [opened.enter_context(file.open("rb")) for file in self._recorded()]
            found = spoken(chain(*logs), {self.layout.listener_of(slot) for slot in slots})
        for file in self._recorded():
            os.truncate(file, 0)  # a broker that lives goes on with the same file
        return found

    def _recorded(self) -> list[Path]:
        return list((self._folder / "brokers").glob(f"*/{REQUESTS}"))

    def bypasses(self) -> list[str]:
        """Connections between two brokers that go round the proxies; there must be none."""
        owners = {port: f"broker {broker}'s {name}" for (broker, name), port in self.layout.listeners.items()}
        pids = {node.pid: node.id for node in self._nodes if node.running}
        found = []
        for pid, dialing in pids.items():
            own = {port for (broker, _), port in self.layout.listeners.items() if broker == dialing}
            for connection in psutil.Process(pid).net_connections("tcp"):
                if not connection.raddr or connection.laddr.port in own:
                    continue  # a listening socket, or one that somebody else dialed
                if connection.raddr.port in owners and connection.raddr.port not in own:
                    found.append(f"broker {dialing} dials {owners[connection.raddr.port]}")
        return found

    def _is_up(self, broker: int) -> bool:
        return self._nodes[broker - 1].running

    def _start(self) -> None:
        self.layout = lay_out(self._spec.brokers, self._spec.slots, self._ports())
        self._brokers = {broker: self.layout.harness_port(broker) for broker in self.layout.brokers}
        self._controllers = {broker: self.layout.controller_port(broker) for broker in self.layout.voters}
        self._start_proxies()
        self._nodes = self._make_nodes()
        for node in self._nodes:
            node.begin()
        self._await_registered()

    def _ports(self) -> Callable[[], int]:
        """Where ports come from: those of a first try that are still free, then new ones."""
        free = iter([port for port in self._taken if listens(port)])

        def port() -> int:
            taken = next(free, None) or self._next_port()
            self._taken.append(taken)
            return taken

        self._taken = []
        return port

    def _start_proxies(self) -> None:
        server = self._toxiproxy = ToxiproxyServer(
            self._prepared.toxiproxy, self.layout.toxiproxy, self._folder
        )
        child = server.start(self._supervisor, self.layout.links.values())
        self.network = LocalNetwork(server.api, child.pid, self.layout.links)

    def _make_nodes(self) -> list[LocalBroker]:
        prepared = self._prepared
        java, kafka = prepared.java, prepared.kafka

        def storage_tool(folder: Path) -> list[str]:
            return broker_command(java, kafka, main=STORAGE_TOOL, args=[], folder=folder)

        checkpoint = features(prepared.cache, kafka.version, storage_tool, self._spec.transaction_version)
        cluster_id = new_id()
        scratch = self._supervisor.scratch_folder("brokers")
        nodes = []
        for broker in self.layout.brokers:
            folder = self._folder / "brokers" / str(broker)
            config = folder / "server.properties"
            command = broker_command(
                java,
                kafka,
                args=[config],
                folder=scratch,
                heap_mb=self._spec.heap_mb,
                archive_flags=[*prepared.archive_flags, f"-Dfencepost.requests={folder / REQUESTS}"],
            )
            node = LocalBroker(broker, folder, command, self.layout.harness_port(broker), self._supervisor)
            format_node(node.data_dir, cluster_id, broker, checkpoint)
            config.write_text(properties(self.layout, broker, node.data_dir, self._spec.settings))
            nodes.append(node)
        return nodes

    def _await_registered(self) -> None:
        """Wait until every broker is up in every broker's own view; raises `StartFailed`."""
        wanted = self.layout.brokers
        state: list[str] = []

        def all_registered() -> bool:
            for node in self._nodes:
                node.check_started()
            seen = admin.views(self._brokers)
            state[:] = [_told(broker, view) for broker, view in seen.items()]
            registered = (isinstance(view, admin.View) and view.brokers == wanted for view in seen.values())
            return all(registered) and all(node.started() for node in self._nodes)

        try:
            # Beyond three they share the same cores.
            patience_s = START_TIMEOUT_S * max(1.0, len(wanted) / 3)
            wait_for(all_registered, "all brokers to be registered", patience_s, last_seen=lambda: state)
        except WaitTimeout as error:
            logs = f"the brokers' logs are {self._folder / 'brokers'}/*/server.log"
            raise StartFailed(f"the cluster did not start: {error}; {logs}") from error

    def _end(self) -> None:
        """End all of them; what fails is logged."""
        for node in self._nodes:
            node.end()
        for file in self._recorded():
            file.unlink()
        if self._toxiproxy is not None:
            try:
                self._toxiproxy.end()
            except EnvironmentFailure as error:
                _log.error("toxiproxy: %s", error)


def _told(broker: int, view: admin.View | WireError) -> str:
    if isinstance(view, WireError):
        return f"broker {broker} does not answer"
    return f"broker {broker} knows of brokers {', '.join(map(str, view.brokers)) or 'none'}"
