"""A cluster whose brokers are JVM processes of this machine. It needs no root and no Docker."""

import shutil

import psutil

from harness.cluster import PROCESS_ABILITIES
from harness.cluster.config import broker_properties
from harness.cluster.node import LocalBroker
from harness.cluster.proxies import ToxiproxyServer, end_proxies
from harness.cluster.started import StartedCluster
from harness.cluster.storage import format_node, new_id
from harness.environment.jvm import broker_command
from harness.network.proxied import ProxiedNetwork
from harness.witness.segment_witness import SegmentWitness


class LocalCluster(StartedCluster[LocalBroker]):
    """A cluster of processes that a supervisor starts. Its files are in one folder."""

    abilities = PROCESS_ABILITIES
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

    def _make_nodes(self) -> list[LocalBroker]:
        prepared = self._prepared
        cluster_id, features = new_id(), self._feature_files()
        scratch = self._supervisor.scratch_folder("brokers")
        nodes = []
        for broker in self.layout.brokers:
            folder = self._folder / "brokers" / str(broker)
            config = folder / "server.properties"
            command = broker_command(
                prepared.java,
                prepared.kafka,
                args=[config],
                folder=scratch,
                heap_mb=self._spec.heap_mb,
                archive_flags=prepared.archive_flags,
            )
            node = LocalBroker(broker, folder, command, self.layout.harness_port(broker), self._supervisor)
            own_features = features if broker in self.layout.voters else {}
            format_node(node.data_dir, cluster_id, broker, own_features)
            config.write_text(broker_properties(self.layout, broker, node.data_dir, self._spec.settings))
            nodes.append(node)
        return nodes

    def _discard_first_start(self) -> None:
        for node in self._nodes:
            shutil.rmtree(node.data_dir)

    def _end(self) -> None:
        for node in self._nodes:
            node.end()
        end_proxies(self._toxiproxy, self._protocol_proxy)
