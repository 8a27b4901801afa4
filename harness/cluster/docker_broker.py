"""One Kafka node in a container."""

import logging
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from harness.cluster.start_diagnosis import port_taken
from harness.cluster.started_node import PortTaken, StartedNode
from harness.common.errors import EnvironmentFailure, FaultFailed, StartFailed
from harness.containers.container import Container
from harness.model.pipeline import TopicPartition

HOME = PurePosixPath("/fencepost")
DATA = HOME / "data"
_EVIDENCE = ("*-checkpoint", "*-[0-9]*")
"""The parts of the data folder that are copied: the checkpoints and the folders of the partitions."""
_NOT_EVIDENCE = ("*.index", "*.timeindex", "*.txnindex", "*.snapshot", "__cluster_metadata-0")
"""Files that are not copied: the metadata log, and files that Kafka rebuilds (an index is 10 MB of zeros)."""
_COPY_ATTEMPTS = 5
"""The broker replaces its checkpoints every few seconds. If it does so during a copy, the copy is repeated."""
_log = logging.getLogger(__name__)


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
