"""A cluster whose brokers are Docker containers. One more container runs toxiproxy, which carries all links.

Every container and network has the run's mark as a label. If the run is killed, its guardian removes them. If the
guardian is killed too, the next run removes them.
"""

import logging
import re
import shutil
import socket
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path, PurePosixPath

from harness.cluster import IMAGE_ABILITIES, Ability, ClusterSpec, Need
from harness.cluster.config import Hosts, broker_properties
from harness.cluster.proxies import create_proxies, end_proxies
from harness.cluster.started import StartedCluster
from harness.cluster.started_node import PortTaken, StartedNode, diagnosis, new_id, node_files, port_taken
from harness.common.errors import EnvironmentFailure, FaultFailed, StartFailed
from harness.containers.container import (
    EXECUTABLE,
    READABLE,
    SOCKET_TABLES,
    Container,
    ContainerFactory,
    ContainerSpec,
    read_established,
)
from harness.environment import PreparedEnvironment
from harness.environment.container_image import ARCHIVE, JARS, JAVA_HOME, ContainerImage
from harness.environment.java import LOGGING, LOGGING_FOLDER, Java, broker_command, flags_for
from harness.environment.kafka import KafkaDistribution
from harness.model.pipeline import TopicPartition
from harness.network.networks import ProxiedNetwork
from harness.network.toxiproxy import HOST, Proxy
from harness.network.traffic import ReceivedBytes
from harness.processes.spawn import Supervisor
from harness.witness.tabulate import SegmentWitness

_log = logging.getLogger(__name__)

HOME = PurePosixPath("/fencepost")
DATA = HOME / "data"
_EVIDENCE = ("*-checkpoint", "*-[0-9]*")
"""The parts of the data folder that are copied: the checkpoints and the folders of the partitions."""
_NOT_EVIDENCE = ("*.index", "*.timeindex", "*.txnindex", "*.snapshot", "__cluster_metadata-0")
"""Files that are not copied: the metadata log, and files that Kafka rebuilds (an index is 10 MB of zeros)."""
_COPY_ATTEMPTS = 5
"""The broker replaces its checkpoints every few seconds. If it does so during a copy, the copy is repeated."""
TOXIPROXY = "toxiproxy"
MACHINE = "host.docker.internal"
"""The name of this machine in containers. Docker Desktop knows it; on Linux a container gets its address."""
REACH_TIMEOUT_S = 5.0


class DockerBroker(StartedNode):
    """A broker in a container. The container remains when its process is stopped and started again."""

    def __init__(self, id_: int, folder: Path, port: int, make: Callable[[], Container]) -> None:
        super().__init__(id_, folder, port)
        self._make = make
        self._container: Container | None = None

    @property
    def container(self) -> Container:
        """Its container. Raises `FaultFailed` before the first start."""
        if self._container is None:
            raise FaultFailed(f"broker {self.id} was never started")
        return self._container

    @property
    def pid(self) -> int:
        """The pid of its process, or of its last one, on the machine of the Docker daemon. 0 before the first start."""
        return self._container.pid if self._container else 0

    @property
    def running(self) -> bool:
        """Whether its process exists and is not paused."""
        return self._container is not None and self._container.state().status == "running"

    @property
    def paused(self) -> bool:
        """Whether its container is paused."""
        return self._container is not None and self._container.state().status == "paused"

    def ended(self) -> bool:
        """Return whether its process has ended. If so, all its output is in the log file."""
        if self._container is None or not self._container.state().has_ended:
            return False
        self._container.await_output()
        return True

    def log_bytes(self, partition: TopicPartition) -> int:
        """Return the size of the broker's log of a partition. 0 if the broker has no replica of it."""
        return self._count(partition, "cat", "wc -c")

    def segments(self, partition: TopicPartition) -> int:
        """Return the number of segment files of the broker's log of a partition. 0 if it has no replica of it."""
        return self._count(partition, "ls", "wc -l")

    def _count(self, partition: TopicPartition, show: str, count: str) -> int:
        folder = DATA / f"{partition[0]}-{partition[1]}"
        return int(self.container.run("sh", "-c", f"{show} {folder}/*.log 2>/dev/null | {count}"))

    def kill(self) -> str:
        """Send SIGKILL. Return the proof."""
        return self.container.kill()

    def stop(self) -> str:
        """Send SIGTERM and wait until the broker has shut down cleanly. Return the proof."""
        return self.container.stop()

    def pause(self) -> str:
        """Pause it with the cgroup freezer. It keeps its sockets. Return the proof."""
        return self.container.pause()

    def resume(self) -> str:
        """Resume it, if it is paused. Return the proof."""
        return self.container.resume()

    def copy_data(self) -> None:
        """Copy the files of its partitions into its folder. The broker must run. Raises `EnvironmentFailure`."""
        for attempt in range(1, _COPY_ATTEMPTS + 1):
            shutil.rmtree(self.data_dir, ignore_errors=True)
            self.data_dir.mkdir(parents=True)
            try:
                self.container.copy_files(DATA, _EVIDENCE, _NOT_EVIDENCE, self.data_dir)
                return
            except EnvironmentFailure as error:
                if attempt == _COPY_ATTEMPTS:
                    raise
                _log.info("the copy of the data of broker %d is repeated: %s", self.id, error)

    @contextmanager
    def drop_packets(self, harness_port: int) -> Iterator[Callable[[], str]]:
        """Drop all packets from and to the broker for the length of a `with`, except those of the harness.

        SYN packets are dropped too, so a client that connects waits. The context value is a function that returns the
        proof: the number of dropped packets, or "" if there are none. Raises `FaultFailed`.
        """
        chains = (("INPUT", "-i", "--dport"), ("OUTPUT", "-o", "--sport"))
        rules = [
            [chain, "!", interface, "lo", "-p", "tcp", "!", port, str(harness_port), "-j", "DROP"]
            for chain, interface, port in chains
        ]
        added: list[list[str]] = []
        try:
            for rule in rules:
                self._run_iptables("-I", *rule)
                added.append(rule)
            yield self._describe_dropped_packets
        finally:
            for rule in added:
                self._run_iptables("-D", *rule)

    def _run_iptables(self, *arguments: str) -> None:
        try:
            self.container.run("iptables", "-w", *arguments)
        except EnvironmentFailure as error:
            raise FaultFailed(
                f"the packet filter of broker {self.id} could not be changed: {error}"
            ) from error

    def _describe_dropped_packets(self) -> str:
        lines = self.container.run("iptables-save", "-c", "-t", "filter").splitlines()
        counts = [line[1:].partition(":")[0] for line in lines if line.startswith("[") and "DROP" in line]
        dropped = sum(map(int, counts))
        return f"iptables dropped {dropped} packets of broker {self.id}" if dropped else ""

    def end(self) -> None:
        """Remove its container, at the end of the cluster. Failures are logged."""
        if self._container is None:
            return
        try:
            self._container.remove()
        except EnvironmentFailure as error:
            _log.error("the container of broker %d could not be removed: %s", self.id, error)
        self._container = None

    def _start_process(self) -> None:
        try:
            if self._container is None:
                self._container = self._make()
            self._container.start()
        except StartFailed as error:
            if port_taken(str(error)):
                raise PortTaken(str(error)) from error
            raise


class ProxyContainer:
    """Toxiproxy in a container."""

    def __init__(self, container: Container) -> None:
        self._container = container

    @property
    def problem(self) -> str:
        """How the container ended, and the last line of its log. Empty while it runs."""
        state = self._container.state()
        if state.status == "running":
            return ""
        self._container.await_output()
        last_words = diagnosis(self._container.log_file.read_text(errors="replace", encoding="utf-8"))
        return f"{self._container.name} is {state}; the last line of its log: {last_words}"

    def connections_by_port(self) -> Counter[int]:
        """Return the number of connections on each local port."""
        return Counter(
            connection.local_port
            for connection in read_established(self._container.run("cat", *SOCKET_TABLES))
        )

    def received_bytes(self) -> ReceivedBytes | None:
        """Return None, because only root can count the bytes of sockets in a container's network namespace."""
        return None


class DockerCluster(StartedCluster[DockerBroker]):
    """A cluster of containers of one Docker daemon."""

    hosts = Hosts(bind="0.0.0.0", proxies=TOXIPROXY, brokers="broker-{broker}", machine=MACHINE)

    def __init__(
        self,
        spec: ClusterSpec,
        folder: Path,
        prepared: PreparedEnvironment,
        supervisor: Supervisor,
        next_port: Callable[[], int],
    ) -> None:
        super().__init__(spec, folder, prepared, supervisor, next_port)
        if prepared.image is None:
            raise EnvironmentFailure("no container image was prepared")
        self._image: ContainerImage = prepared.image
        self._containers = ContainerFactory(prepared.image.name, supervisor, prepared.cache)
        self._toxiproxy: Container | None = None
        self._data_copied = False
        self._has_started = False

    @property
    def abilities(self) -> frozenset[Need]:
        """All abilities of an image. If it has no iptables, packets cannot be dropped."""
        return IMAGE_ABILITIES - (frozenset() if self._image.drops_packets else {Ability.PACKETS})

    def __enter__(self) -> "DockerCluster":
        super().__enter__()
        self._has_started = True
        return self

    def bypasses(self) -> list[str]:
        """Describe each connection between two brokers that bypasses the proxies. There must be none."""
        owners = {port: f"broker {broker}'s {name}" for (broker, name), port in self.layout.listeners.items()}
        bypasses = []
        for node in self._nodes:
            own_ports = {port for (broker, _), port in self.layout.listeners.items() if broker == node.id}
            for connection in (
                read_established(node.container.run("cat", *SOCKET_TABLES)) if node.running else ()
            ):
                if (
                    connection.local_port not in own_ports
                    and connection.remote_port in owners.keys() - own_ports
                ):
                    bypasses.append(f"broker {node.id} dials {owners[connection.remote_port]}")
        return bypasses

    def isolate(self, broker: int, how: Ability) -> AbstractContextManager[Callable[[], str]]:
        """Drop the broker's packets, or disconnect it from the network `links`."""
        node = self._nodes[broker - 1]
        if how is Ability.PACKETS and how in self.abilities:
            return node.drop_packets(self.layout.harness_port(broker))
        if how is Ability.DISCONNECT:
            return self._containers.disconnected(node.container, self.hosts.of(broker))
        return super().isolate(broker, how)

    def _segments(self) -> SegmentWitness:
        return SegmentWitness(self._copy)

    def _start_proxies(self) -> ProxiedNetwork:
        self._containers.open()
        # Elsewhere Docker runs in a virtual machine, which forwards MACHINE to 127.0.0.1 of this machine.
        address = self._containers.machine_address() if sys.platform == "linux" else None
        proxies = [*self.layout.links.values(), *self.layout.behind]
        container = self._start_toxiproxy(proxies, {MACHINE: address} if address else {})

        def check() -> None:
            if container.state().has_ended:
                container.await_output()
                output = container.log_file.read_text(errors="replace", encoding="utf-8")
                raise StartFailed(
                    f"toxiproxy did not start: {diagnosis(output)}; its log is {container.log_file}"
                )

        api = create_proxies(self.layout.toxiproxy, proxies, check)
        self._require_version(container)
        if self.layout.protocol_links:
            self._require_reachable(address or HOST)
        protocol_proxy = self._start_protocol_proxy(*([address] if address else []))
        server = ProxyContainer(container)
        return ProxiedNetwork(api, server, self.layout.links, protocol_proxy=protocol_proxy)

    def _start_toxiproxy(self, proxies: Sequence[Proxy], addresses: Mapping[str, str]) -> Container:
        port = self.layout.toxiproxy
        program = str(HOME / "toxiproxy-server")
        container_spec = ContainerSpec(
            TOXIPROXY,
            [program, "-host", self.hosts.bind, "-port", str(port)],
            {program: (self._prepared.toxiproxy.read_bytes(), EXECUTABLE)},
            [port, *(proxy.listen_port for proxy in proxies)],
            self._folder / "toxiproxy.log",
            environment={"LOG_LEVEL": "error"},
            addresses=addresses,
        )
        container = self._toxiproxy = self._containers.make(container_spec)
        try:
            container.start()
        except StartFailed as error:
            raise (PortTaken(str(error)) if port_taken(str(error)) else error) from error
        return container

    def _require_reachable(self, address: str) -> None:
        """Raise `StartFailed` if toxiproxy cannot connect to a process of this machine that listens on an address."""
        link = self.layout.protocol_links[0]
        try:
            with socket.create_server((address, link.port)) as listener:
                listener.settimeout(REACH_TIMEOUT_S)
                proxy = self.layout.links[link.name]
                with socket.create_connection((HOST, proxy.listen_port), REACH_TIMEOUT_S):
                    listener.accept()[0].close()
        except OSError as error:
            raise StartFailed(
                f"containers cannot reach the protocol proxy, which listens on {address} of this machine ({error}): "
                "let its firewall accept connections from Docker's networks, or choose --cluster local"
            ) from error

    def _require_version(self, container: Container) -> None:
        """Raise `StartFailed` if the image has no Kafka in `JARS`, or has another version."""
        image, required = self._image.name, self._prepared.kafka.version
        try:
            jars = container.run("ls", str(JARS))
        except EnvironmentFailure as error:
            raise StartFailed(
                f"the image {image} has no Kafka in {JARS}: choose an image of Kafka {required} with --set image=NAME"
            ) from error
        version = re.search(r"kafka-clients-([\d.]+)\.jar", jars)
        if version is None or version[1] != required:
            problem = (
                f"has Kafka {version[1]}: add --kafka {version[1]}, or"
                if version
                else f"has no Kafka in {JARS}:"
            )
            raise StartFailed(
                f"the image {image} {problem} choose an image of Kafka {required} with --set image=NAME"
            )

    def _make_nodes(self) -> list[DockerBroker]:
        image, kafka = self._image, self._prepared.kafka
        java = Java(JAVA_HOME, JAVA_HOME / "bin" / "java", image.java_version, "", image.origin)
        # A class archive is valid only for its jars in their order. Other images have their own jars.
        jars = tuple(JARS / jar.name for jar in kafka.class_path) if image.archive else (JARS / "*",)
        kafka_in_image = KafkaDistribution(kafka.version, jars)
        cluster_id, features = new_id(), self._feature_files()
        logging_files = {
            str(HOME / name): ((LOGGING_FOLDER / name).read_bytes(), READABLE) for _, name in LOGGING.values()
        }
        nodes = []
        for broker in self.layout.brokers:
            config = HOME / "server.properties"
            command = broker_command(
                java,
                kafka_in_image,
                args=[str(config)],
                folder=Path("/tmp"),
                heap_mb=self._spec.heap_mb,
                archive_flags=flags_for(image.java_version, ARCHIVE) if image.archive else (),
                logging_folder=Path(HOME),
            )
            properties = broker_properties(self.layout, broker, DATA, self._spec.settings)
            own_features = features if broker in self.layout.voters else {}
            files = {
                **logging_files,
                str(config): (properties.encode(), READABLE),
                **{
                    str(DATA / name): (content, READABLE)
                    for name, content in node_files(cluster_id, broker, own_features).items()
                },
            }
            folder = self._folder / "brokers" / str(broker)
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "server.properties").write_text(properties, encoding="utf-8")
            ports = [port for (owner, _), port in self.layout.listeners.items() if owner == broker]
            capabilities = ["NET_ADMIN"] if self._image.drops_packets else []
            log_file = folder / "server.log"
            container_spec = ContainerSpec(
                self.hosts.of(broker), command, files, ports, log_file, capabilities=capabilities
            )
            make = partial(self._containers.make, container_spec)
            nodes.append(DockerBroker(broker, folder, self.layout.harness_port(broker), make))
        return nodes

    def _copy(self) -> None:
        for node in self._nodes:
            node.copy_data()
        self._data_copied = True

    def _discard_first_start(self) -> None:
        """Do nothing: the files of a container end with it."""

    def _end(self) -> None:
        if self._has_started and not self._data_copied:  # a run that ended early is checked too
            try:
                self._copy()
            except EnvironmentFailure as error:
                _log.warning("the brokers' data could not be copied: %s", error)
        for node in self._nodes:
            node.end()
        end_proxies(self._protocol_proxy)
        try:
            if self._toxiproxy is not None:
                self._toxiproxy.remove()
            self._containers.close()
        except EnvironmentFailure as error:
            _log.error("the containers could not be removed: %s", error)
            return
        self._toxiproxy = None
