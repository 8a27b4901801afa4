"""A broker as a JVM process of this machine."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil

from harness.cluster.started_node import STOP_TIMEOUT_S, StartedNode
from harness.common.errors import FaultFailed, WaitTimeout
from harness.model.pipeline import TopicPartition
from harness.processes.child import Child
from harness.processes.preload import Preload
from harness.processes.spawn import Supervisor

_log = logging.getLogger(__name__)


class LocalBroker(StartedNode):
    """A broker as a process. Every start makes a new process; the folder stays the same."""

    def __init__(
        self,
        id_: int,
        folder: Path,
        command: Sequence[str | Path],
        port: int,
        supervisor: Supervisor,
        preload: Preload | None = None,
    ) -> None:
        super().__init__(id_, folder, port)
        self.command = command  # of its next start
        self._supervisor = supervisor
        self._preload = preload
        self._child: Child | None = None

    @property
    def pid(self) -> int:
        """The pid of its process, or of its last one. 0 before the first start."""
        return self._child.pid if self._child else 0

    @property
    def running(self) -> bool:
        """Whether its process exists and is not paused."""
        return self._child is not None and self._child.running

    @property
    def paused(self) -> bool:
        """Whether its process is paused by SIGSTOP."""
        return self._child is not None and self._child.paused

    def ended(self) -> bool:
        """Whether its process has ended."""
        return self._child is not None and self._child.poll() is not None

    @property
    def preload(self) -> Preload:
        """Changes its clock and its disk. Raises `FaultFailed` if no fault of the run needs this."""
        return self._preload or super().preload

    def log_bytes(self, partition: TopicPartition) -> int:
        """Return the size of the broker's log of a partition."""
        return sum(segment.stat().st_size for segment in self._segment_files(partition))

    def segments(self, partition: TopicPartition) -> int:
        """Return the number of segment files of the broker's log of a partition."""
        return len(self._segment_files(partition))

    def _segment_files(self, partition: TopicPartition) -> list[Path]:
        return list((self.data_dir / f"{partition[0]}-{partition[1]}").glob("*.log"))

    def kill(self) -> str:
        """Send SIGKILL. Return the proof: `process 4711 ended by SIGKILL`."""
        with self._translate_timeout("killed"):
            return self._require_ending(self._require_process().kill(), "ended by SIGKILL")

    def stop(self) -> str:
        """Send SIGTERM and wait until the broker has shut down cleanly. Return the proof."""
        with self._translate_timeout("stopped"):
            # A JVM that shuts down cleanly on SIGTERM ends with 128 + 15.
            return self._require_ending(self._require_process().stop(STOP_TIMEOUT_S), "ended with status 143")

    def pause(self) -> str:
        """Send SIGSTOP and wait until the kernel reports the process as stopped. Return the proof."""
        with self._translate_timeout("paused"):
            return self._require_process().pause()

    def resume(self) -> str:
        """Send SIGCONT, if the process is paused. Return the proof."""
        with self._translate_timeout("resumed"):
            return self._require_process().resume()

    def _start_process(self) -> None:
        self._child = self._supervisor.spawn(
            self.command,
            name=f"broker {self.id}",
            log_file=self.log_file,
            env=self._preload.env if self._preload else None,
        )

    def end(self) -> None:
        """Kill its process, at the end of the cluster. Failures are logged."""
        if self._child is None:
            return
        try:
            self._child.kill()
        except WaitTimeout as error:
            _log.error("broker %d: %s", self.id, error)

    def resident_mb(self) -> float:
        """Return the resident memory of its process in MB. 0 if it has no process."""
        try:
            return psutil.Process(self.pid).memory_info().rss / 1e6 if self.pid else 0.0
        except psutil.NoSuchProcess:
            return 0.0

    def _require_process(self) -> Child:
        if self._child is None:
            raise FaultFailed(f"broker {self.id} was never started")
        if self._child.poll() is not None:
            raise FaultFailed(f"broker {self.id} does not run: {self._child.ending()}")
        return self._child

    def _require_ending(self, ending: str, expected: str) -> str:
        if not ending.endswith(expected):
            raise FaultFailed(f"broker {self.id} ended, but not by this fault: {ending}")
        return ending

    @contextmanager
    def _translate_timeout(self, participle: str) -> Iterator[None]:
        try:
            yield
        except WaitTimeout as error:
            raise FaultFailed(f"broker {self.id} could not be {participle}: {error}") from error
