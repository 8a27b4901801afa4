"""A node that is started here, whatever it runs in: its folder, what it printed, and whether it came up."""

from abc import ABC, abstractmethod
from pathlib import Path

from harness.cluster.start_diagnosis import diagnosis, port_taken
from harness.common.errors import StartFailed, WaitTimeout
from harness.common.waiting import wait_for
from harness.wire.protocol import is_answering

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0
_ALL_UP = "Kafka Server started"


class PortTaken(StartFailed):
    """Somebody else took a port between its choice and its use: try again with others."""


class StartedNode(ABC):
    """What prints to `server.log` in a folder of its own, over all its starts."""

    def __init__(self, id_: int, folder: Path, port: int) -> None:
        self._id = id_
        self._folder = folder
        self._port = port
        self._printed_before = 0  # bytes in the log when it was started

    @property
    def id(self) -> int:
        """Its node id, from 1."""
        return self._id

    @property
    def data_dir(self) -> Path:
        """Where the partitions' folders lie."""
        return self._folder / "data"

    @property
    def log_file(self) -> Path:
        """What the broker itself printed, over all its starts."""
        return self._folder / "server.log"

    @property
    @abstractmethod
    def running(self) -> bool:
        """Whether its process exists and is not stopped."""

    @property
    @abstractmethod
    def paused(self) -> bool:
        """Whether its process exists and is stopped."""

    @abstractmethod
    def ended(self) -> bool:
        """Whether the process that was started last is over, and all that it printed is in the log."""

    @abstractmethod
    def resume(self) -> str:
        """Let it go on; returns the proof. Does nothing to a process that runs."""

    @abstractmethod
    def _launch(self) -> None:
        """Start its process, and do not wait for it."""

    def start(self) -> None:
        """Start it again on its old data and ports; returns when its process is up and answers.

        Does nothing to a broker that runs; resumes one that is paused. Raises `StartFailed`.
        """
        if self.running:
            return
        if self.paused:
            self.resume()
        else:
            self.begin()
        self.await_answer()

    def begin(self) -> None:
        """Start its process, and do not wait for it."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._printed_before = self.log_file.stat().st_size if self.log_file.exists() else 0
        self._launch()

    def await_answer(self) -> None:
        """Wait until it answers requests; raises `StartFailed`."""

        def answering() -> bool:
            self.check_started()
            return is_answering(self._port, 1.0)

        try:
            wait_for(answering, f"broker {self.id} to answer", START_TIMEOUT_S)
        except WaitTimeout as error:
            raise StartFailed(f"{error}; its log {self.log_file} says: {self._diagnosis()}") from error

    def check_started(self) -> None:
        """Raise `StartFailed` if its process has ended; `PortTaken` if another start may help."""
        if not self.ended():
            return
        kind = PortTaken if port_taken(self._printed()) else StartFailed
        raise kind(f"broker {self.id} did not start: {self._diagnosis()}; its log is {self.log_file}")

    def started(self) -> bool:
        """Whether it says that all of it is up: every listener too, which it binds last."""
        return _ALL_UP in self._printed()

    def _printed(self) -> str:
        if not self.log_file.exists():
            return ""
        with self.log_file.open("rb") as log:
            log.seek(self._printed_before)
            return log.read().decode(errors="replace")

    def _diagnosis(self) -> str:
        return diagnosis(self._printed())
