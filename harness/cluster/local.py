"""A cluster whose brokers are JVM processes of this machine. It needs no root and no Docker."""

import shutil
from pathlib import Path

import psutil

from harness.cluster import PROCESS_ABILITIES
from harness.cluster.config import broker_properties
from harness.cluster.node import LocalBroker
from harness.cluster.proxies import ToxiproxyServer, end_proxies
from harness.cluster.started import StartedCluster
from harness.cluster.storage import feature_levels, format_node, new_id
from harness.common.errors import FaultFailed
from harness.environment import PreparedKafka
from harness.environment.java import broker_command
from harness.network.proxied import ProxiedNetwork
from harness.processes.preload import Preload
from harness.witness.tabulate import SegmentWitness


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
