"""A cluster whose brokers are JVM processes of this machine. It needs no root and no Docker."""

import logging
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil

from harness.cluster import PROCESS_ABILITIES
from harness.cluster.config import broker_properties
from harness.cluster.proxies import ToxiproxyServer, end_proxies
from harness.cluster.started import StartedCluster
from harness.cluster.started_node import STOP_TIMEOUT_S, StartedNode, feature_levels, format_node, new_id
from harness.common.errors import FaultFailed, WaitTimeout
from harness.environment import PreparedKafka
from harness.environment.java import broker_command
from harness.model.pipeline import TopicPartition
from harness.network.networks import ProxiedNetwork
from harness.processes.child import Child
from harness.processes.preload import Preload
from harness.processes.spawn import Supervisor
from harness.witness.tabulate import SegmentWitness

_log = logging.getLogger(__name__)


class LocalBroker(StartedNode):
    """A broker as a process. Every start makes a new process; the folder stays the same."""

    def __init__(
        self,
        id_: int,
        folder: Path,
        command: Sequence[str | Path],
        port: int,
        supervisor: Supervisor,
        preload: Preload | None = None,
    ) -> None:
        super().__init__(id_, folder, port)
        self.command = command  # of its next start
        self._supervisor = supervisor
        self._preload = preload
        self._child: Child | None = None

    @property
    def pid(self) -> int:
        """The pid of its process, or of its last one. 0 before the first start."""
        return self._child.pid if self._child else 0

    @property
    def running(self) -> bool:
        """Whether its process exists and is not paused."""
        return self._child is not None and self._child.running

    @property
    def paused(self) -> bool:
        """Whether its process is paused by SIGSTOP."""
        return self._child is not None and self._child.paused

    def ended(self) -> bool:
        """Whether its process has ended."""
        return self._child is not None and self._child.poll() is not None

    @property
    def preload(self) -> Preload:
        """Changes its clock and its disk. Raises `FaultFailed` if no fault of the run needs this."""
        return self._preload or super().preload

    def log_bytes(self, partition: TopicPartition) -> int:
        """Return the size of the broker's log of a partition."""
        return sum(segment.stat().st_size for segment in self._segment_files(partition))

    def segments(self, partition: TopicPartition) -> int:
        """Return the number of segment files of the broker's log of a partition."""
        return len(self._segment_files(partition))

    def _segment_files(self, partition: TopicPartition) -> list[Path]:
        return list((self.data_dir / f"{partition[0]}-{partition[1]}").glob("*.log"))

    def kill(self) -> str:
        """Send SIGKILL. Return the proof: `process 4711 ended by SIGKILL`."""
        with self._translate_timeout("killed"):
            return self._require_ending(self._require_process().kill(), "ended by SIGKILL")

    def stop(self) -> str:
        """Send SIGTERM and wait until the broker has shut down cleanly. Return the proof."""
        with self._translate_timeout("stopped"):
            # A JVM that shuts down cleanly on SIGTERM ends with 128 + 15.
            return self._require_ending(self._require_process().stop(STOP_TIMEOUT_S), "ended with status 143")

    def pause(self) -> str:
        """Send SIGSTOP and wait until the kernel reports the process as stopped. Return the proof."""
        with self._translate_timeout("paused"):
            return self._require_process().pause()

    def resume(self) -> str:
        """Send SIGCONT, if the process is paused. Return the proof."""
        with self._translate_timeout("resumed"):
            return self._require_process().resume()

    def _start_process(self) -> None:
        self._child = self._supervisor.spawn(
            self.command,
            name=f"broker {self.id}",
            log_file=self.log_file,
            env=self._preload.env if self._preload else None,
        )

    def end(self) -> None:
        """Kill its process, at the end of the cluster. Failures are logged."""
        if self._child is None:
            return
        try:
            self._child.kill()
        except WaitTimeout as error:
            _log.error("broker %d: %s", self.id, error)

    def resident_mb(self) -> float:
        """Return the resident memory of its process in MB. 0 if it has no process."""
        try:
            return psutil.Process(self.pid).memory_info().rss / 1e6 if self.pid else 0.0
        except psutil.NoSuchProcess:
            return 0.0

    def _require_process(self) -> Child:
        if self._child is None:
            raise FaultFailed(f"broker {self.id} was never started")
        if self._child.poll() is not None:
            raise FaultFailed(f"broker {self.id} does not run: {self._child.ending()}")
        return self._child

    def _require_ending(self, ending: str, expected: str) -> str:
        if not ending.endswith(expected):
            raise FaultFailed(f"broker {self.id} ended, but not by this fault: {ending}")
        return ending

    @contextmanager
    def _translate_timeout(self, participle: str) -> Iterator[None]:
        try:
            yield
        except WaitTimeout as error:
            raise FaultFailed(f"broker {self.id} could not be {participle}: {error}") from error


class LocalCluster(StartedCluster[LocalBroker]):
    """A cluster of processes that a supervisor starts. Its files are in one folder."""

    abilities = PROCESS_ABILITIES
    _scratch: Path  # where JVMs write native libraries and crash reports
    _toxiproxy: ToxiproxyServer | None = None

    def bypasses(self) -> list[str]:
        """Describe each connection between two brokers that bypasses the proxies. There must be none."""
        owners = {port: f"broker {broker}'s {name}" for (broker, name), port in self.layout.listeners.items()}
        pids = {node.pid: node.id for node in self._nodes if node.running}
        bypasses = []
        for pid, broker in pids.items():
            own_ports = {port for (owner, _), port in self.layout.listeners.items() if owner == broker}
            for connection in psutil.Process(pid).net_connections("tcp"):
                if not connection.raddr or connection.laddr.port in own_ports:
                    continue  # a listening socket, or a connection that another process dialed
                if connection.raddr.port in owners and connection.raddr.port not in own_ports:
                    bypasses.append(f"broker {broker} dials {owners[connection.raddr.port]}")
        return bypasses

    def _segments(self) -> SegmentWitness:
        return SegmentWitness()

    def _start_proxies(self) -> ProxiedNetwork:
        server = self._toxiproxy = ToxiproxyServer(
            self._prepared.toxiproxy, self.layout.toxiproxy, self._folder
        )
        protocol_proxy = self._start_protocol_proxy()
        api = server.start(self._supervisor, self.layout.links.values())
        return ProxiedNetwork(api, server, self.layout.links, protocol_proxy=protocol_proxy)

    def use_kafka(self, broker: int, version: str) -> None:
        """Let a broker use another version of Kafka from its next start on. Its data and its settings stay."""
        self._nodes[broker - 1].command = self._command(broker, self._kafka(version))

    def features_of(self, version: str) -> dict[str, int]:
        """Return the features of a new cluster of a version, as StorageTool of this version writes them."""
        return feature_levels(self._feature_files(self._kafka(version).distribution))

    def _kafka(self, version: str) -> PreparedKafka:
        prepared = self._prepared
        versions = {
            prepared.kafka.version: PreparedKafka(prepared.kafka, prepared.archive_flags),
            **prepared.upgrades,
        }
        if version not in versions:
            raise FaultFailed(f"this run has not prepared Kafka {version}, but {', '.join(versions)}")
        return versions[version]

    def _command(self, broker: int, kafka: PreparedKafka) -> list[str]:
        return broker_command(
            self._prepared.java,
            kafka.distribution,
            args=[self._broker_folder(broker) / "server.properties"],
            folder=self._scratch,
            heap_mb=self._spec.heap_mb,
            archive_flags=kafka.archive_flags,
        )

    def _preload(self, broker: int) -> Preload | None:
        library, data_dir = self._prepared.preload, self._broker_folder(broker) / "data"
        return Preload(library, self._scratch / f"preload-{broker}", data_dir) if library else None

    def _broker_folder(self, broker: int) -> Path:
        return self._folder / "brokers" / str(broker)

    def _make_nodes(self) -> list[LocalBroker]:
        cluster_id, features = new_id(), self._feature_files()
        self._scratch = self._supervisor.scratch_folder("brokers")
        kafka = self._kafka(self._prepared.kafka.version)
        nodes = []
        for broker in self.layout.brokers:
            folder = self._broker_folder(broker)
            config = folder / "server.properties"
            command = self._command(broker, kafka)
            port = self.layout.harness_port(broker)
            node = LocalBroker(broker, folder, command, port, self._supervisor, self._preload(broker))
            own_features = features if broker in self.layout.voters else {}
            format_node(node.data_dir, cluster_id, broker, own_features)
            config.write_text(
                broker_properties(self.layout, broker, node.data_dir, self._spec.settings), encoding="utf-8"
            )
            nodes.append(node)
        return nodes

    def _discard_first_start(self) -> None:
        for node in self._nodes:
            shutil.rmtree(node.data_dir)

    def _end(self) -> None:
        for node in self._nodes:
            node.end()
        end_proxies(self._toxiproxy, self._protocol_proxy)
