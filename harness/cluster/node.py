"""One Kafka node as a JVM process on this machine."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil

from harness.cluster.started_node import STOP_TIMEOUT_S, StartedNode
from harness.common.errors import FaultFailed, WaitTimeout
from harness.processes.child import Child
from harness.processes.spawn import Supervisor

_log = logging.getLogger(__name__)


class LocalBroker(StartedNode):
    """A node: broker and controller. Its process changes with every start, its folder does not."""

    def __init__(
        self,
        id_: int,
        folder: Path,
        command: Sequence[str | Path],
        port: int,
        supervisor: Supervisor,
        env: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(id_, folder, port)
        self._command = command
        self._supervisor = supervisor
        self._env = env
        self._child: Child | None = None

    @property
    def pid(self) -> int:
        """Of its process, or of the last one it had; 0 before the first start."""
        return self._child.pid if self._child else 0

    @property
    def running(self) -> bool:
        """Whether its process exists and is not stopped by a signal."""
        return self._child is not None and self._child.running

    @property
    def paused(self) -> bool:
        """Whether its process is stopped by a signal."""
        return self._child is not None and self._child.paused

    def ended(self) -> bool:
        """Whether its process is over."""
        return self._child is not None and self._child.poll() is not None

    def log_bytes(self, place: tuple[str, int]) -> int:
        """How long its log of a partition is."""
        segments = (self.data_dir / f"{place[0]}-{place[1]}").glob("*.log")
        return sum(segment.stat().st_size for segment in segments)

    def kill(self) -> str:
        """SIGKILL; returns the proof: `process 4711 ended by SIGKILL`."""
        with self._fault("killed"):
            return self._proven(self._alive().kill(), "ended by SIGKILL")

    def stop(self) -> str:
        """SIGTERM, and wait for the clean end; returns the proof."""
        with self._fault("stopped"):
            # A JVM that shuts down cleanly on SIGTERM ends with 128 + 15.
            return self._proven(self._alive().stop(STOP_TIMEOUT_S), "ended with status 143")

    def pause(self) -> str:
        """SIGSTOP; returns the proof, once the kernel says that the process is stopped."""
        with self._fault("paused"):
            return self._alive().pause()

    def resume(self) -> str:
        """SIGCONT; returns the proof. Does nothing to a process that runs."""
        with self._fault("resumed"):
            return self._alive().resume()

    def _launch(self) -> None:
        self._child = self._supervisor.spawn(
            self._command, name=f"broker {self.id}", log_file=self.log_file, env=self._env
        )

    def end(self) -> None:
        """Make sure that no process is left; for the end of a cluster."""
        if self._child is None:
            return
        try:
            self._child.kill()
        except WaitTimeout as error:
            _log.error("broker %d: %s", self.id, error)

    def resident_mb(self) -> float:
        """How much memory its process holds, in MB; 0 if it has none."""
        try:
            return psutil.Process(self.pid).memory_info().rss / 1e6 if self.pid else 0.0
        except psutil.NoSuchProcess:
            return 0.0

    def _alive(self) -> Child:
        if self._child is None:
            raise FaultFailed(f"broker {self.id} was never started")
        if self._child.poll() is not None:
            raise FaultFailed(f"broker {self.id} is not there: {self._child.ending()}")
        return self._child

    def _proven(self, ending: str, wanted: str) -> str:
        if not ending.endswith(wanted):
            raise FaultFailed(f"broker {self.id} ended, but not by this fault: {ending}")
        return ending

    @contextmanager
    def _fault(self, done: str) -> Iterator[None]:
        try:
            yield
        except WaitTimeout as error:
            raise FaultFailed(f"broker {self.id} could not be {done}: {error}") from error
