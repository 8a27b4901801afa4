"""The containers of one run, and its two networks.

On `links` the containers know each other by name, and one can be taken from it. By `harness` ports are published, on
127.0.0.1 alone, so that what strikes `links` does not blind who looks on. All of it bears the run's mark.
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
    """What a container is made of."""

    host: str  # its name on `links`
    command: Sequence[str]
    files: Mapping[str, tuple[bytes, int]]  # content and mode by path
    ports: Sequence[int]  # published under the same numbers
    log_file: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    capabilities: Sequence[str] = ()


class ContainerFactory:
    """Makes containers of an image, for a run that `supervisor` guards."""

    def __init__(self, image: str, supervisor: Supervisor, cache: Path) -> None:
        self._image = image
        self._supervisor = supervisor
        self._note = note_path(cache, supervisor.mark)
        self._name = f"fencepost-{supervisor.mark.rpartition('.')[2]}"
        self._networks: dict[str, Network] = {}

    def open(self) -> None:
        """Make the networks. From now on the guardian removes all of it if the run is killed.

        Raises `EnvironmentFailure`.
        """
        connect()
        from testcontainers.core.network import Network

        self._note.parent.mkdir(parents=True, exist_ok=True)
        self._note.touch()
        self._supervisor.guard_with_command(removal_command(self._supervisor.mark))
        for kind in (LINKS, HARNESS):
            # An internal network has no gateway, so that ports are published by the other, on which containers may not
            # talk to each other: it would be a way round what strikes `links`.
            wanted = {
                "driver": "bridge",
                "internal": kind == LINKS,
                "options": {"com.docker.network.bridge.enable_icc": "true" if kind == LINKS else "false"},
                "labels": {LABEL: self._supervisor.mark},
            }
            network = Network(docker_network_kw=wanted)
            network.name = f"{self._name}-{kind}"
            with translate_errors(f"the network {network.name} could not be made", StartFailed):
                self._networks[kind] = network.create()

    def make(self, recipe: ContainerSpec) -> Container:
        """A container that is on both networks and has its files, and has not started. Raises `StartFailed`."""
        from testcontainers.core.docker_client import DockerClient

        name = f"{self._name}-{recipe.host}"
        with translate_errors(f"the container {name} could not be made", StartFailed):
            handle = DockerClient().create(
                self._image,
                entrypoint=list(recipe.command),
                environment=dict(recipe.environment),
                ports={f"{port}/tcp": (PUBLISHED_ON, port) for port in recipe.ports},
                labels={LABEL: self._supervisor.mark},
                name=name,
                user="0",
                network=self._networks[HARNESS].name,
                cap_add=list(recipe.capabilities),
            )
            self._networks[LINKS].connect(handle.id, network_aliases=[recipe.host])
            handle.put_archive("/", _packed(recipe.files))
        return Container(handle, name, recipe.log_file)

    @contextmanager
    def disconnected(self, container: Container, host: str) -> Iterator[Callable[[], str]]:
        """Take a container from `links` for the length of a `with`; gives what tells the proof.

        Raises `FaultFailed`.
        """
        from docker.errors import APIError

        name = self._networks[LINKS].name
        with translate_errors(f"{container.name} could not be disconnected", FaultFailed):
            network = connect().networks.get(name)
            network.disconnect(container.id, force=True)

        def proof() -> str:
            gone = name not in container.networks()
            return f"container {container.name} was not on the network {name}" if gone else ""

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
        """Remove the networks, once the containers are gone. Raises `EnvironmentFailure`."""
        for kind, network in list(self._networks.items()):
            with translate_errors(f"the network {network.name} could not be removed"):
                network.remove()
            del self._networks[kind]
        self._note.unlink(missing_ok=True)


def _packed(files: Mapping[str, tuple[bytes, int]]) -> bytes:
    """Files as the archive that Docker unpacks at the root."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for path, (content, mode) in files.items():
            info = tarfile.TarInfo(str(PurePosixPath(path).relative_to("/")))
            info.size, info.mode = len(content), mode
            tar.addfile(info, io.BytesIO(content))
    return packed.getvalue()
