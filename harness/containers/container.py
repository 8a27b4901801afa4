"""The containers of one run, and its networks.

On the network `links` containers reach each other by name, and a fault can disconnect one of them. The network
`harness` publishes ports on 127.0.0.1 only. Over it, the harness still reaches a broker that a fault has disconnected
from `links`. Containers and networks have the run's mark as a label.
"""

import io
import logging
import tarfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

from docker.errors import APIError, NotFound
from urllib3.exceptions import HTTPError

from harness.common.errors import EnvironmentFailure, FaultFailed, StartFailed
from harness.common.waiting import wait_for
from harness.containers.daemon import LABEL, connect, note_path, removal_command, shorten, translate_errors
from harness.processes.spawn import Supervisor

if TYPE_CHECKING:
    from docker.models.containers import Container as Handle
    from testcontainers.core.network import Network

_log = logging.getLogger(__name__)

ESTABLISHED = 1
SOCKET_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
PUBLISHED_ON = "127.0.0.1"
LINKS, HARNESS = "links", "harness"
EXECUTABLE, READABLE = 0o755, 0o644


class ContainerConnection(NamedTuple):
    """One end of an established connection."""

    local_port: int
    remote_port: int


def read_established(tables: str) -> Iterator[ContainerConnection]:
    """Yield the established connections in the text of both tables.

    Each line has one connection. Addresses have the form `HOST:PORT`, both in hexadecimal.
    """
    for line in tables.splitlines():
        words = line.split()
        if len(words) > 3 and words[0].endswith(":") and int(words[3], 16) == ESTABLISHED:
            yield ContainerConnection(*(int(address.rpartition(":")[2], 16) for address in words[1:3]))


MESSAGE_BYTES = 300
END_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class ContainerState:
    """The state of a container's process, as Docker reports it."""

    status: str  # created, running, paused, exited, ...
    pid: int  # on the machine of the Docker daemon; 0: there is no process
    exit_code: int
    out_of_memory: bool

    def __str__(self) -> str:
        """Describe it for a message: "exited with status 137, out of memory"."""
        memory = ", out of memory" if self.out_of_memory else ""
        status = f"{self.status} with status {self.exit_code}" if self.has_ended else self.status
        return status + memory

    @property
    def has_ended(self) -> bool:
        """Whether its process has ended."""
        return self.status in ("exited", "dead")


class Container:
    """A container. Its process can end and be started again until the container is removed."""

    def __init__(self, handle: "Handle", name: str, log_file: Path) -> None:
        self._handle = handle
        self.name = name
        self.log_file = log_file
        self._follower: threading.Thread | None = None
        self._last_pid = 0

    @property
    def id(self) -> str:
        """Its id in Docker."""
        return str(self._handle.id)

    @property
    def pid(self) -> int:
        """The pid of its process, or of its last one."""
        return self.state().pid or self._last_pid

    def state(self) -> ContainerState:
        """Return its current state. Raises `EnvironmentFailure`."""
        with translate_errors(f"{self.name} could not be inspected"):
            state: Mapping[str, Any] = self._handle.client.api.inspect_container(self.id)["State"]
        self._last_pid = state["Pid"] or self._last_pid
        return ContainerState(state["Status"], state["Pid"], state["ExitCode"], state["OOMKilled"])

    def networks(self) -> set[str]:
        """Return the names of the networks that it is connected to."""
        with translate_errors(f"{self.name} could not be inspected"):
            settings = self._handle.client.api.inspect_container(self.id)["NetworkSettings"]
        return set(settings["Networks"])

    def start(self) -> None:
        """Start its process. Its output is appended to the log file. Raises `StartFailed`."""
        with translate_errors(f"{self.name} could not be started", StartFailed):
            output = self._handle.attach(stdout=True, stderr=True, stream=True)
            self._follower = threading.Thread(
                target=self._follow, args=(output,), name=f"output of {self.name}", daemon=True
            )
            self._follower.start()
            self._handle.start()
            self.state()

    def kill(self) -> str:
        """Send SIGKILL. Return the proof. Raises `FaultFailed` if the process ended for another reason."""
        process = self._require_process()
        self._signal("SIGKILL")
        return self._await_end(process, 128 + 9, "ended by SIGKILL")

    def stop(self) -> str:
        """Send SIGTERM, and wait until the JVM has shut down cleanly. Return the proof. Raises `FaultFailed`."""
        process = self._require_process()
        self._signal("SIGTERM")
        return self._await_end(process, 128 + 15, "ended with status 143")

    def pause(self) -> str:
        """Pause all its processes, and check that Docker reports it. Return the proof. Raises `FaultFailed`."""
        self._require_process()
        with translate_errors(f"{self.name} could not be paused", FaultFailed):
            self._handle.pause()
        state = self.state()
        if state.status != "paused":
            raise FaultFailed(f"{self.name} is {state.status} after it was paused")
        return f"container {self.name} (process {state.pid}) paused"

    def resume(self) -> str:
        """Resume it, if it is paused. Return the proof. Raises `FaultFailed`."""
        if self.state().status != "paused":
            return f"container {self.name} was not stopped"
        with translate_errors(f"{self.name} could not be resumed", FaultFailed):
            self._handle.unpause()
        state = self.state()
        if state.status != "running":
            raise FaultFailed(f"{self.name} is {state.status} after it was resumed")
        return f"container {self.name} (process {state.pid}) resumed"

    def run(self, *command: str) -> str:
        """Run a command in the container, and return its output. Raises `EnvironmentFailure` if it fails."""
        with translate_errors(f"{command[0]} could not be run in {self.name}"):
            status, output = self._handle.exec_run(list(command), user="0")
        text: str = output.decode(errors="replace")
        if status:
            raise EnvironmentFailure(
                f"{command[0]} failed in {self.name} with status {status}: {shorten(text)}"
            )
        return text

    def copy_files(
        self, folder: PurePosixPath, patterns: Sequence[str], exclude: Sequence[str], out: Path
    ) -> None:
        """Copy files that match `patterns` from a folder of the container to `out`, except those that match `exclude`.

        Raises `EnvironmentFailure`, for example if a file changed while it was read.
        """
        options = [f"--exclude={pattern}" for pattern in exclude]
        # The shell expands the patterns in the container.
        script = f'cd "$0" && exec tar "$@" -cf - {" ".join(patterns)}'
        api = self._handle.client.api
        with translate_errors(f"{folder} of {self.name} could not be read"):
            exec_id = api.exec_create(self.id, ["sh", "-c", script, str(folder), *options], user="0")["Id"]
            try:
                with (
                    (stream := _Output(api.exec_start(exec_id, stream=True, demux=True))),
                    tarfile.open(fileobj=stream, mode="r|") as tar,
                ):
                    tar.extractall(out, filter="data")
                    while stream.read(MESSAGE_BYTES):
                        pass  # read to the end, so that the error output is complete
            except (tarfile.TarError, ValueError) as error:
                # If the command cannot be run, Docker sends an error message instead of the output. ValueError: the
                # client of Docker lost the start of the output, which it does if it comes together with the headers.
                message = shorten((stream.first_bytes + stream.errors).decode(errors="replace"))
                raise EnvironmentFailure(
                    f"tar in {self.name} did not write an archive ({error}): {message}"
                ) from error
            status = api.exec_inspect(exec_id)["ExitCode"]
        if status:
            message = shorten(stream.errors.decode(errors="replace"))
            raise EnvironmentFailure(f"tar failed in {self.name} with status {status}: {message}")

    def read_file(self, file: PurePosixPath) -> bytes:
        """Return the content of a file, even if the process does not run. Empty if there is no such file."""
        with translate_errors(f"{file} of {self.name} could not be read"):
            try:
                chunks, _ = self._handle.get_archive(str(file))
            except NotFound:
                return b""
            content = io.BytesIO(b"".join(chunks))
        with tarfile.open(fileobj=content) as tar:
            member = tar.extractfile(tar.next() or tarfile.TarInfo())
            return member.read() if member else b""

    def remove(self) -> None:
        """Kill its process, and remove the container with its volumes. Raises `EnvironmentFailure`."""
        with translate_errors(f"{self.name} could not be removed"):
            try:
                self._handle.remove(force=True, v=True)
            except NotFound:
                return
        self.await_output()

    def await_output(self) -> None:
        """Wait until all output of its last process is in the log file."""
        if self._follower is not None:
            self._follower.join(END_TIMEOUT_S)

    def _require_process(self) -> ContainerState:
        state = self.state()
        if state.status not in ("running", "paused"):
            raise FaultFailed(
                f"{self.name} does not run: it is {state.status}, with exit status {state.exit_code}"
            )
        return state

    def _signal(self, signal: str) -> None:
        with translate_errors(f"{self.name} could not be sent {signal}", FaultFailed):
            self._handle.kill(signal)

    def _await_end(self, process: ContainerState, exit_code: int, description: str) -> str:
        last = process

        def has_ended() -> bool:
            nonlocal last
            last = self.state()
            return last.has_ended

        wait_for(has_ended, f"the end of {self.name}", END_TIMEOUT_S, every_s=0.02, last_seen=lambda: last)
        if last.exit_code != exit_code or last.out_of_memory:
            raise FaultFailed(f"{self.name} ended, but not by this fault: {last}")
        return f"container {self.name} (process {process.pid}) {description}"

    def _follow(self, output: Any) -> None:
        """Append the output to the log file until the process or the daemon ends."""
        with self.log_file.open("ab", buffering=0) as log:
            try:
                for chunk in output:
                    log.write(chunk)
            except (OSError, HTTPError) as error:
                _log.warning("the output of %s in the log file is incomplete: %s", self.name, error)


class _Output(io.RawIOBase):
    """The output of a command as a file that can be read once. `errors` has the first bytes of its error output."""

    def __init__(self, chunks: Any) -> None:
        self._chunks = chunks
        self._rest = b""
        self.first_bytes = b""  # for an error message
        self.errors = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            output, errors = next(self._chunks, (None, None))
            if output is None and errors is None:
                return 0
            self.errors = (self.errors + (errors or b""))[:MESSAGE_BYTES]
            self._rest = output or b""
            self.first_bytes = self.first_bytes or self._rest[:MESSAGE_BYTES]
        part, self._rest = self._rest[: len(buffer)], self._rest[len(buffer) :]
        buffer[: len(part)] = part
        return len(part)


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
