"""Create the containers of one run, and its two networks.

On the network `links` containers reach each other by name, and a fault can disconnect one of them. The network
`harness` publishes ports on 127.0.0.1 only. Over it, the harness still reaches a broker that a fault has disconnected
from `links`. Containers and networks have the run's mark as a label.
"""

import io
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from harness.common.errors import FaultFailed, StartFailed
from harness.containers.container import Container
from harness.containers.daemon import LABEL, connect, translate_errors
from harness.containers.leftovers import note_path, removal_command
from harness.processes.spawn import Supervisor

if TYPE_CHECKING:
    from testcontainers.core.network import Network

PUBLISHED_ON = "127.0.0.1"
LINKS, HARNESS = "links", "harness"
EXECUTABLE, READABLE = 0o755, 0o644


@dataclass(frozen=True)
class ContainerSpec:
    """The properties of a new container."""

    host: str  # its name on the network `links`
    command: Sequence[str]
    files: Mapping[str, tuple[bytes, int]]  # content and mode by path
    ports: Sequence[int]  # published with the same numbers
    log_file: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    capabilities: Sequence[str] = ()
    addresses: Mapping[str, str] = field(
        default_factory=dict
    )  # by host name, for names that Docker does not know


class ContainerFactory:
    """Creates containers from an image, for the run of a supervisor."""

    def __init__(self, image: str, supervisor: Supervisor, cache: Path) -> None:
        self._image = image
        self._supervisor = supervisor
        self._note = note_path(cache, supervisor.mark)
        self._name = f"fencepost-{supervisor.mark.rpartition('.')[2]}"
        self._networks: dict[str, Network] = {}

    def open(self) -> None:
        """Create the networks. After this, the guardian removes networks and containers if the run is killed.

        Raises `EnvironmentFailure`.
        """
        connect()
        from testcontainers.core.network import Network

        self._note.parent.mkdir(parents=True, exist_ok=True)
        self._note.touch()
        self._supervisor.guard_with_command(removal_command(self._supervisor.mark))
        for kind in (LINKS, HARNESS):
            # The network `links` is internal: it has no gateway, so `harness` publishes the ports. Containers may not
            # reach each other on `harness`, because such connections would bypass faults on `links`.
            options = {
                "driver": "bridge",
                "internal": kind == LINKS,
                "options": {"com.docker.network.bridge.enable_icc": "true" if kind == LINKS else "false"},
                "labels": {LABEL: self._supervisor.mark},
            }
            network = Network(docker_network_kw=options)
            network.name = f"{self._name}-{kind}"
            with translate_errors(f"the network {network.name} could not be created", StartFailed):
                self._networks[kind] = network.create()

    def make(self, spec: ContainerSpec) -> Container:
        """Create a container with its files on both networks, without starting it. Raises `StartFailed`."""
        from testcontainers.core.docker_client import DockerClient

        name = f"{self._name}-{spec.host}"
        with translate_errors(f"the container {name} could not be created", StartFailed):
            handle = DockerClient().create(
                self._image,
                entrypoint=list(spec.command),
                environment=dict(spec.environment),
                ports={f"{port}/tcp": (PUBLISHED_ON, port) for port in spec.ports},
                labels={LABEL: self._supervisor.mark},
                name=name,
                user="0",
                network=self._networks[HARNESS].name,
                cap_add=list(spec.capabilities),
                extra_hosts=dict(spec.addresses),
            )
            self._networks[LINKS].connect(handle.id, network_aliases=[spec.host])
            handle.put_archive("/", _pack(spec.files))
        return Container(handle, name, spec.log_file)

    def machine_address(self) -> str:
        """Return the address of the Docker daemon's machine on the network `harness`. Raises `EnvironmentFailure`."""
        name = self._networks[HARNESS].name
        with translate_errors(f"the network {name} could not be inspected"):
            network = connect().networks.get(name)
        return str(network.attrs["IPAM"]["Config"][0]["Gateway"])

    @contextmanager
    def disconnected(self, container: Container, host: str) -> Iterator[Callable[[], str]]:
        """Disconnect a container from `links` for the length of a `with`.

        The context value is a function that returns the proof, or "" if there is none. Raises `FaultFailed`.
        """
        from docker.errors import APIError

        name = self._networks[LINKS].name
        with translate_errors(f"{container.name} could not be disconnected", FaultFailed):
            network = connect().networks.get(name)
            network.disconnect(container.id, force=True)

        def proof() -> str:
            disconnected = name not in container.networks()
            return f"container {container.name} was not on the network {name}" if disconnected else ""

        try:
            yield proof
        finally:
            with translate_errors(f"{container.name} could not be connected again", FaultFailed):
                try:
                    network.connect(container.id, aliases=[host])
                except APIError:
                    if name not in container.networks():
                        raise

    def close(self) -> None:
        """Remove the networks, after all containers have been removed. Raises `EnvironmentFailure`."""
        for kind, network in list(self._networks.items()):
            with translate_errors(f"the network {network.name} could not be removed"):
                network.remove()
            del self._networks[kind]
        self._note.unlink(missing_ok=True)


def _pack(files: Mapping[str, tuple[bytes, int]]) -> bytes:
    """Return a tar archive of files, for Docker to unpack at the root."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for path, (content, mode) in files.items():
            info = tarfile.TarInfo(str(PurePosixPath(path).relative_to("/")))
            info.size, info.mode = len(content), mode
            tar.addfile(info, io.BytesIO(content))
    return archive.getvalue()
