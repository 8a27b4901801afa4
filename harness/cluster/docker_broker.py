"""One Kafka node in a container."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from harness.cluster.start_diagnosis import port_taken
from harness.cluster.started_node import PortTaken, StartedNode
from harness.common.errors import EnvironmentFailure, FaultFailed, StartFailed
from harness.containers.container import Container

HOME = PurePosixPath("/fencepost")
DATA = HOME / "data"
_NOT_EVIDENCE = ("*.index", "*.timeindex", "*.txnindex", "*.snapshot", "./__cluster_metadata-0")
"""What Kafka makes anew from segments (indexes are 10 MB of zeros each), and the cluster's own log."""
_log = logging.getLogger(__name__)


class DockerBroker(StartedNode):
    """A node: broker and controller. Its container lasts over all its starts, its process does not."""

    def __init__(self, id_: int, folder: Path, port: int, make: Callable[[], Container]) -> None:
        super().__init__(id_, folder, port)
        self._make = make
        self._container: Container | None = None

    @property
    def container(self) -> Container:
        """What it runs in. Raises `FaultFailed` before its first start."""
        if self._container is None:
            raise FaultFailed(f"broker {self.id} was never started")
        return self._container

    @property
    def pid(self) -> int:
        """Of its process, as the daemon's machine counts, or of the last one it had."""
        return self._container.pid if self._container else 0

    @property
    def running(self) -> bool:
        """Whether its process exists and is not frozen."""
        return self._container is not None and self._container.state().status == "running"

    @property
    def paused(self) -> bool:
        """Whether its container is frozen."""
        return self._container is not None and self._container.state().status == "paused"

    def ended(self) -> bool:
        """Whether its process is over, and all that it printed is in the log."""
        if self._container is None or not self._container.state().over:
            return False
        self._container.await_output()
        return True

    def log_bytes(self, place: tuple[str, int]) -> int:
        """How long its log of a partition is; 0: it has none."""
        folder = DATA / f"{place[0]}-{place[1]}"
        return int(self.container.run("sh", "-c", f"cat {folder}/*.log 2>/dev/null | wc -c"))

    def kill(self) -> str:
        """SIGKILL; returns the proof."""
        return self.container.kill()

    def stop(self) -> str:
        """SIGTERM, and wait for the clean end; returns the proof."""
        return self.container.stop()

    def pause(self) -> str:
        """Freeze it (cgroup freezer), so that it keeps its sockets; returns the proof."""
        return self.container.pause()

    def resume(self) -> str:
        """Thaw it; returns the proof. Does nothing to one that runs."""
        return self.container.resume()

    def copy_data(self) -> None:
        """Bring what its partitions hold into its folder. It must run. Raises `EnvironmentFailure`."""
        self.data_dir.mkdir(parents=True, exist_ok=True)
        self.container.copy_folder(DATA, _NOT_EVIDENCE, self.data_dir)

    @contextmanager
    def drop_packets(self, harness_port: int) -> Iterator[Callable[[], str]]:
        """Drop each packet from and to it, but for those of the harness, for the length of a `with`.

        Gives what tells how many were dropped meanwhile: the proof, empty while none was. A SYN is lost as well, so
        that whoever connects waits. Raises `FaultFailed`.
        """
        chains = (("INPUT", "-i", "--dport"), ("OUTPUT", "-o", "--sport"))
        rules = [
            [chain, "!", way, "lo", "-p", "tcp", "!", port, str(harness_port), "-j", "DROP"]
            for chain, way, port in chains
        ]
        on: list[list[str]] = []
        try:
            for rule in rules:
                self._filter("-I", *rule)
                on.append(rule)
            yield self._dropped
        finally:
            for rule in on:
                self._filter("-D", *rule)

    def _filter(self, *words: str) -> None:
        try:
            self.container.run("iptables", "-w", *words)
        except EnvironmentFailure as error:
            raise FaultFailed(f"the packets of broker {self.id}: {error}") from error

    def _dropped(self) -> str:
        lines = self.container.run("iptables-save", "-c", "-t", "filter").splitlines()
        counted = [line[1:].partition(":")[0] for line in lines if line.startswith("[") and "DROP" in line]
        dropped = sum(map(int, counted))
        return f"iptables dropped {dropped} packets of broker {self.id}" if dropped else ""

    def end(self) -> None:
        """Make sure that nothing of it is left; for the end of a cluster."""
        if self._container is None:
            return
        try:
            self._container.remove()
        except EnvironmentFailure as error:
            _log.error("broker %d: %s", self.id, error)
        self._container = None

    def _launch(self) -> None:
        try:
            if self._container is None:
                self._container = self._make()
            self._container.start()
        except StartFailed as error:
            if port_taken(str(error)):
                raise PortTaken(str(error)) from error
            raise
