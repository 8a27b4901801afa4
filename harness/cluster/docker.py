"""Kafka nodes in containers; every link between them and to them is a proxy in one container more.

Everything bears the run's mark: the guardian removes it if the run is killed, and the next run does if the guardian is.
"""

import logging
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

from harness.cluster import ALL_ABILITIES, Ability, ClusterSpec, Need
from harness.cluster.config import Hosts, broker_properties
from harness.cluster.docker_broker import DATA, HOME, DockerBroker
from harness.cluster.proxies import create_proxies
from harness.cluster.start_diagnosis import diagnosis, port_taken
from harness.cluster.started import REQUESTS, StartedCluster
from harness.cluster.started_node import PortTaken
from harness.cluster.storage import new_id, node_files
from harness.common.errors import EnvironmentFailure, StartFailed
from harness.containers.container import Container
from harness.containers.fleet import EXECUTABLE, READABLE, ContainerFactory, ContainerSpec
from harness.containers.sockets import SOCKET_TABLES, read_established
from harness.environment import PreparedEnvironment
from harness.environment.archive import flags_for
from harness.environment.container_image import ContainerImage
from harness.environment.java import Java
from harness.environment.jvm import HERE, LOGGING, broker_command
from harness.environment.kafka import KafkaDistribution
from harness.environment.rootfs import ARCHIVE, JARS, JAVA_HOME
from harness.network.proxied import ProxiedNetwork
from harness.network.traffic import ReceivedBytes
from harness.processes.spawn import Supervisor
from harness.witness.request_log import (
    ClientVersions,
    ObservedClientIds,
    parse_client_ids,
    parse_client_versions,
)
from harness.witness.segment_witness import SegmentWitness

TOXIPROXY = "toxiproxy"
_log = logging.getLogger(__name__)


class ProxyContainer:
    """Toxiproxy in a container."""

    def __init__(self, container: Container) -> None:
        self._container = container

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self._container.state().status == "running"

    def connections_by_port(self) -> Counter[int]:
        """How many connections stand on each port."""
        return Counter(one.local_port for one in read_established(self._container.run("cat", *SOCKET_TABLES)))

    def received_bytes(self) -> ReceivedBytes | None:
        """None: its sockets are in a network namespace of their own, of which a user without root learns no bytes."""
        return None


class DockerCluster(StartedCluster[DockerBroker]):
    """A cluster of containers of one Docker daemon."""

    hosts = Hosts(bind="0.0.0.0", proxies=TOXIPROXY, brokers="broker-{broker}")

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
            raise EnvironmentFailure("no image was prepared for containers")
        self._image: ContainerImage = prepared.image
        self._fleet = ContainerFactory(prepared.image.name, supervisor, prepared.cache)
        self._toxiproxy: Container | None = None
        self._read: dict[int, int] = {}  # by broker: how much of its recorded requests was read
        self._copied = False
        self._registered = False

    @property
    def abilities(self) -> frozenset[Need]:
        """Everything; without iptables in the image no packets can be dropped."""
        return ALL_ABILITIES - (frozenset() if self._image.drops_packets else {Ability.PACKETS})

    def __enter__(self) -> "DockerCluster":
        super().__enter__()
        self._registered = True
        return self

    def client_versions(self, endpoints: Sequence[str]) -> ClientVersions:
        """What the brokers wrote down of these client endpoints since it was last asked."""
        recorded = {node.id: node.container.read_file(HOME / REQUESTS) for node in self._nodes}
        found = parse_client_versions(
            self._unread(recorded), {self.layout.listener_of(endpoint) for endpoint in endpoints}
        )
        self._read |= {broker: len(content) for broker, content in recorded.items()}
        return found

    def client_ids(self, endpoint: str) -> ObservedClientIds:
        """By what the brokers wrote down since it was last asked for what was spoken."""
        recorded = {node.id: node.container.read_file(HOME / REQUESTS) for node in self._nodes}
        return parse_client_ids(self._unread(recorded), self.layout.listener_of(endpoint))

    def _unread(self, recorded: Mapping[int, bytes]) -> Iterator[bytes]:
        """The lines, of each broker from where it was last read."""
        for broker, content in recorded.items():
            yield from content[self._read.get(broker, 0) :].splitlines(keepends=True)

    def bypasses(self) -> list[str]:
        """Connections between two brokers that go round the proxies; there must be none."""
        owners = {port: f"broker {broker}'s {name}" for (broker, name), port in self.layout.listeners.items()}
        found = []
        for node in self._nodes:
            own = {port for (broker, _), port in self.layout.listeners.items() if broker == node.id}
            for one in read_established(node.container.run("cat", *SOCKET_TABLES)) if node.running else ():
                if one.local_port not in own and one.remote_port in owners.keys() - own:
                    found.append(f"broker {node.id} dials {owners[one.remote_port]}")
        return found

    def isolate(self, broker: int, how: Ability) -> AbstractContextManager[Callable[[], str]]:
        """Drop its packets but for the harness's, or take it from the network on which brokers and proxies are."""
        node = self._nodes[broker - 1]
        if how is Ability.PACKETS and how in self.abilities:
            return node.drop_packets(self.layout.harness_port(broker))
        if how is Ability.DISCONNECT:
            return self._fleet.disconnected(node.container, self.hosts.of(broker))
        return super().isolate(broker, how)

    def _segments(self) -> SegmentWitness:
        return SegmentWitness(self._copy)

    def _start_proxies(self) -> ProxiedNetwork:
        self._fleet.open()
        port = self.layout.toxiproxy
        program = str(HOME / "toxiproxy-server")
        recipe = ContainerSpec(
            TOXIPROXY,
            [program, "-host", self.hosts.bind, "-port", str(port)],
            {program: (self._prepared.toxiproxy.read_bytes(), EXECUTABLE)},
            [port, *(link.listen_port for link in self.layout.links.values())],
            self._folder / "toxiproxy.log",
            environment={"LOG_LEVEL": "error"},
        )
        container = self._toxiproxy = self._fleet.make(recipe)
        try:
            container.start()
        except StartFailed as error:
            raise (PortTaken(str(error)) if port_taken(str(error)) else error) from error

        def check() -> None:
            if container.state().over:
                container.await_output()
                words = container.log_file.read_text(errors="replace")
                raise StartFailed(
                    f"toxiproxy did not start: {diagnosis(words)}; its log is {container.log_file}"
                )

        api = create_proxies(port, self.layout.links.values(), check)
        self._require_version(container)
        return ProxiedNetwork(api, ProxyContainer(container), self.layout.links)

    def _require_version(self, container: Container) -> None:
        """Raise `StartFailed` if the image has no Kafka where it is looked for, or another version."""
        image, wanted = self._image.name, self._prepared.kafka.version
        try:
            jars = container.run("ls", str(JARS))
        except EnvironmentFailure as error:
            raise StartFailed(
                f"the image {image} has no Kafka in {JARS}: name another with --set image=NAME"
            ) from error
        found = re.search(r"kafka-clients-([\d.]+)\.jar", jars)
        if found is None or found[1] != wanted:
            has = (
                f"has Kafka {found[1]}: add --kafka {found[1]}"
                if found
                else f"has no Kafka in {JARS}: name another"
            )
            raise StartFailed(
                f"the image {image} {has}, or choose an image of Kafka {wanted} with --set image=NAME"
            )

    def _make_nodes(self) -> list[DockerBroker]:
        image, kafka = self._image, self._prepared.kafka
        java = Java(JAVA_HOME, JAVA_HOME / "bin" / "java", image.java_version, "", image.origin)
        # An archive fits the jars in one order alone; another image has its own jars.
        jars = tuple(JARS / jar.name for jar in kafka.class_path) if image.archive else (JARS / "*",)
        inside = KafkaDistribution(kafka.version, jars)
        cluster_id, checkpoint = new_id(), self._checkpoint()
        logging_files = {
            str(HOME / name): ((HERE / name).read_bytes(), READABLE) for _, name in LOGGING.values()
        }
        nodes = []
        for broker in self.layout.brokers:
            config = HOME / "server.properties"
            command = broker_command(
                java,
                inside,
                args=[str(config)],
                folder=Path("/tmp"),
                heap_mb=self._spec.heap_mb,
                archive_flags=[
                    *(flags_for(image.java_version, ARCHIVE) if image.archive else ()),
                    f"-Dfencepost.requests={HOME / REQUESTS}",
                ],
                configured_in=Path(HOME),
            )
            said_of_it = broker_properties(self.layout, broker, DATA, self._spec.settings)
            files = {
                **logging_files,
                str(config): (said_of_it.encode(), READABLE),
                **{
                    str(DATA / name): (content, READABLE)
                    for name, content in node_files(cluster_id, broker, checkpoint).items()
                },
            }
            folder = self._folder / "brokers" / str(broker)
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "server.properties").write_text(said_of_it)
            ports = [port for (owner, _), port in self.layout.listeners.items() if owner == broker]
            capabilities = ["NET_ADMIN"] if self._image.drops_packets else []
            log_file = folder / "server.log"
            recipe = ContainerSpec(
                self.hosts.of(broker), command, files, ports, log_file, capabilities=capabilities
            )
            make = partial(self._fleet.make, recipe)
            nodes.append(DockerBroker(broker, folder, self.layout.harness_port(broker), make))
        return nodes

    def _copy(self) -> None:
        for node in self._nodes:
            node.copy_data()
        self._copied = True

    def _forget(self) -> None:
        self._read.clear()

    def _end(self) -> None:
        if self._registered and not self._copied:  # a run that was ended early is looked at all the same
            try:
                self._copy()
            except EnvironmentFailure as error:
                _log.warning("what the brokers hold could not be brought: %s", error)
        for node in self._nodes:
            node.end()
        try:
            if self._toxiproxy is not None:
                self._toxiproxy.remove()
            self._fleet.close()
        except EnvironmentFailure as error:
            _log.error("%s", error)
            return
        self._toxiproxy = None
