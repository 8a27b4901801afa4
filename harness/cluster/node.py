"""One Kafka node as a JVM process on this machine."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil

from harness.clients.wire import answers
from harness.cluster.start_diagnosis import diagnosis, port_taken
from harness.errors import FaultFailed, StartFailed, WaitTimeout
from harness.processes.child import Child
from harness.processes.spawn import Supervisor
from harness.waiting import wait_for

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0
_ALL_UP = "Kafka Server started"
_log = logging.getLogger(__name__)


class PortTaken(StartFailed):
    """Somebody else took a port between its choice and its use: try again with others."""


class LocalBroker:
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
        self._id = id_
        self._folder = folder
        self._command = command
        self._port = port
        self._supervisor = supervisor
        self._env = env
        self._child: Child | None = None
        self._printed_before = 0  # bytes in the log when the process was started

    @property
    def id(self) -> int:
        """Its node id, from 1."""
        return self._id

    @property
    def pid(self) -> int:
        """Of its process, or of the last one it had; 0 before the first start."""
        return self._child.pid if self._child else 0

    @property
    def running(self) -> bool:
        """Whether its process exists and is not stopped by a signal."""
        return self._child is not None and self._child.running

    @property
    def data_dir(self) -> Path:
        """Where the partitions' folders lie."""
        return self._folder / "data"

    def log_bytes(self, place: tuple[str, int]) -> int:
        """How long its log of a partition is."""
        segments = (self.data_dir / f"{place[0]}-{place[1]}").glob("*.log")
        return sum(segment.stat().st_size for segment in segments)

    @property
    def log_file(self) -> Path:
        """What the broker itself printed, over all its starts."""
        return self._folder / "server.log"

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

    def start(self) -> None:
        """Start it again on its old data and ports; returns when its process is up and answers.

        Does nothing to a broker that runs; resumes one that is paused. Raises `StartFailed`.
        """
        if self.running:
            return
        if self._child is not None and self._child.paused:
            self.resume()
        else:
            self.begin()
        self.await_answer()

    def begin(self) -> None:
        """Start its process, and do not wait for it."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._printed_before = self.log_file.stat().st_size if self.log_file.exists() else 0
        self._child = self._supervisor.spawn(
            self._command, name=f"broker {self.id}", log_file=self.log_file, env=self._env
        )

    def await_answer(self) -> None:
        """Wait until it answers requests; raises `StartFailed`."""

        def answering() -> bool:
            self.check_started()
            return answers(self._port, 1.0)

        try:
            wait_for(answering, f"broker {self.id} to answer", START_TIMEOUT_S)
        except WaitTimeout as error:
            raise StartFailed(f"{error}; its log {self.log_file} says: {self._diagnosis()}") from error

    def check_started(self) -> None:
        """Raise `StartFailed` if its process has ended; `PortTaken` if another start may help."""
        assert self._child is not None
        if self._child.poll() is None:
            return
        kind = PortTaken if port_taken(self._printed()) else StartFailed
        raise kind(f"broker {self.id} did not start: {self._diagnosis()}; its log is {self.log_file}")

    def started(self) -> bool:
        """Whether it says that all of it is up: every listener too, which it binds last."""
        return _ALL_UP in self._printed()

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

    def _printed(self) -> str:
        if not self.log_file.exists():
            return ""
        with self.log_file.open("rb") as log:
            log.seek(self._printed_before)
            return log.read().decode(errors="replace")

    def _diagnosis(self) -> str:
        return diagnosis(self._printed())
