"""The base of brokers that a run starts, as a process or in a container."""

import re
from abc import ABC, abstractmethod
from pathlib import Path

from harness.cluster.start_diagnosis import diagnosis, port_taken
from harness.common.errors import FaultFailed, StartFailed, WaitTimeout
from harness.common.waiting import wait_for
from harness.processes.preload import Preload
from harness.wire.protocol import is_answering

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0
_STARTED_MESSAGE = "Kafka Server started"
_VERSION_MESSAGE = re.compile(r"Kafka version: (\S+)")


class PortTaken(StartFailed):
    """Another process took a port after it was chosen. A start with other ports may succeed."""


class StartedNode(ABC):
    """A broker that has a folder. Its output is appended to `server.log` there at every start."""

    def __init__(self, id_: int, folder: Path, port: int) -> None:
        self._id = id_
        self._folder = folder
        self._port = port
        self._previous_log_bytes = 0  # size of the log file before the last start

    @property
    def id(self) -> int:
        """Its node id. The first is 1."""
        return self._id

    @property
    def data_dir(self) -> Path:
        """The folder with the folders of its partitions."""
        return self._folder / "data"

    @property
    def log_file(self) -> Path:
        """The file with the broker's output of all its starts."""
        return self._folder / "server.log"

    @property
    def preload(self) -> Preload:
        """Raise `FaultFailed`, because no library is preloaded."""
        raise FaultFailed(
            f"broker {self.id} was started without the library that changes its clock and its disk"
        )

    @property
    @abstractmethod
    def running(self) -> bool:
        """Whether its process exists and is not paused."""

    @property
    @abstractmethod
    def paused(self) -> bool:
        """Whether its process exists and is paused."""

    @abstractmethod
    def ended(self) -> bool:
        """Return whether its last process has ended. If so, all its output is in the log file."""

    @abstractmethod
    def resume(self) -> str:
        """Resume it, if it is paused. Return the proof."""

    @abstractmethod
    def _start_process(self) -> None:
        """Start its process without waiting."""

    def start(self) -> None:
        """Start it again with its old data and ports, and wait until it answers requests.

        Do nothing if the broker runs. Resume it if it is paused. Raises `StartFailed`.
        """
        if self.running:
            return
        if self.paused:
            self.resume()
        else:
            self.begin()
        self.await_answer()

    def begin(self) -> None:
        """Start its process without waiting."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._previous_log_bytes = self.log_file.stat().st_size if self.log_file.exists() else 0
        self._start_process()

    def await_answer(self) -> None:
        """Wait until it answers requests. Raises `StartFailed`."""

        def answering() -> bool:
            self.check_started()
            return is_answering(self._port, 1.0)

        try:
            wait_for(answering, f"broker {self.id} to answer", START_TIMEOUT_S)
        except WaitTimeout as error:
            raise StartFailed(f"{error}; its log {self.log_file} says: {self._diagnosis()}") from error

    def check_started(self) -> None:
        """Raise `StartFailed` if its process has ended. Raise `PortTaken` if it may start with other ports."""
        if not self.ended():
            return
        kind = PortTaken if port_taken(self._output()) else StartFailed
        raise kind(f"broker {self.id} did not start: {self._diagnosis()}; its log is {self.log_file}")

    def started(self) -> bool:
        """Return whether it has printed that it is up. Then all its listeners are bound."""
        return _STARTED_MESSAGE in self._output()

    def kafka_version(self) -> str:
        """Return the version of Kafka that it has logged since its last start. Empty if there is none yet."""
        found = _VERSION_MESSAGE.search(self._output())
        return found[1] if found else ""

    def _output(self) -> str:
        if not self.log_file.exists():
            return ""
        with self.log_file.open("rb") as log:
            log.seek(self._previous_log_bytes)
            return log.read().decode(errors="replace")

    def _diagnosis(self) -> str:
        return diagnosis(self._output())
