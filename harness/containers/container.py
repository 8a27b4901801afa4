"""One container of a run: what is asked of it and done to it, each with its proof or one sentence why not."""

import io
import logging
import tarfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from harness.common.errors import EnvironmentFailure, FaultFailed, StartFailed
from harness.common.waiting import wait_for
from harness.containers.daemon import shorten, translate_errors

if TYPE_CHECKING:
    from docker.models.containers import Container as Handle

FIRST_BYTES = 300
END_TIMEOUT_S = 30.0
_KILLED = 128 + 9
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ContainerState:
    """What Docker says of a container's process."""

    status: str  # created, running, paused, exited, ...
    pid: int  # as the daemon's machine counts; 0: there is none
    exit_code: int
    out_of_memory: bool

    def __str__(self) -> str:
        """Return it for a message: "exited with status 137, out of memory"."""
        more = ", out of memory" if self.out_of_memory else ""
        return f"{self.status} with status {self.exit_code}{more}" if self.over else self.status + more

    @property
    def over(self) -> bool:
        """Whether it has run, and runs no more."""
        return self.status in ("exited", "dead")


class Container:
    """A container that is there until it is removed, over all starts of its process."""

    def __init__(self, handle: "Handle", name: str, log_file: Path) -> None:
        self._handle = handle
        self.name = name
        self.log_file = log_file
        self._follower: threading.Thread | None = None
        self._last_pid = 0

    @property
    def id(self) -> str:
        """By which Docker knows it."""
        return str(self._handle.id)

    @property
    def pid(self) -> int:
        """Of its process, or of the last one it had."""
        return self.state().pid or self._last_pid

    def state(self) -> ContainerState:
        """What it does now. Raises `EnvironmentFailure`."""
        with translate_errors(f"{self.name} could not be looked at"):
            told: Mapping[str, Any] = self._handle.client.api.inspect_container(self.id)["State"]
        self._last_pid = told["Pid"] or self._last_pid
        return ContainerState(told["Status"], told["Pid"], told["ExitCode"], told["OOMKilled"])

    def networks(self) -> set[str]:
        """The names of the networks that it is on."""
        with translate_errors(f"{self.name} could not be looked at"):
            settings = self._handle.client.api.inspect_container(self.id)["NetworkSettings"]
        return set(settings["Networks"])

    def start(self) -> None:
        """Start its process; what that prints is appended to the log file. Raises `StartFailed`."""
        with translate_errors(f"{self.name} could not be started", StartFailed):
            output = self._handle.attach(stdout=True, stderr=True, stream=True)
            self._follower = threading.Thread(
                target=self._follow, args=(output,), name=f"output of {self.name}", daemon=True
            )
            self._follower.start()
            self._handle.start()
            self.state()

    def kill(self) -> str:
        """SIGKILL; returns the proof. Raises `FaultFailed` if it ends otherwise, or not."""
        before = self._alive()
        self._signal("SIGKILL")
        return self._ending(before, _KILLED, "ended by SIGKILL")

    def stop(self) -> str:
        """SIGTERM, and the end of a JVM that shuts down cleanly; returns the proof. Raises `FaultFailed`."""
        before = self._alive()
        self._signal("SIGTERM")
        return self._ending(before, 128 + 15, "ended with status 143")

    def pause(self) -> str:
        """Freeze all its processes; returns the proof, once Docker says that they are frozen. Raises `FaultFailed`."""
        self._alive()
        with translate_errors(f"{self.name} could not be paused", FaultFailed):
            self._handle.pause()
        state = self.state()
        if state.status != "paused":
            raise FaultFailed(f"{self.name} is {state.status} after it was paused")
        return f"container {self.name} (process {state.pid}) frozen"

    def resume(self) -> str:
        """Let it go on; returns the proof. Does nothing to one that is not paused."""
        if self.state().status != "paused":
            return f"container {self.name} was not stopped"
        with translate_errors(f"{self.name} could not go on", FaultFailed):
            self._handle.unpause()
        state = self.state()
        if state.status != "running":
            raise FaultFailed(f"{self.name} is {state.status} after it was to go on")
        return f"container {self.name} (process {state.pid}) thawed"

    def run(self, *command: str) -> str:
        """What a command prints that is run inside. Raises `EnvironmentFailure` if it fails."""
        with translate_errors(f"{command[0]} could not be run in {self.name}"):
            status, output = self._handle.exec_run(list(command), user="0")
        words: str = output.decode(errors="replace")
        if status:
            raise EnvironmentFailure(
                f"{command[0]} failed in {self.name} with status {status}: {shorten(words)}"
            )
        return words

    def copy_folder(self, folder: PurePosixPath, exclude: Sequence[str], out: Path) -> None:
        """Write what a folder inside holds into `out`, but for files that match. Raises `EnvironmentFailure`."""
        command = ["tar", "-C", str(folder), *(f"--exclude={one}" for one in exclude), "-cf", "-", "."]
        api = self._handle.client.api
        with translate_errors(f"{folder} of {self.name} could not be read"):
            run = api.exec_create(self.id, command, stderr=False, user="0")["Id"]
            try:
                with (
                    (stream := _Chunks(api.exec_start(run, stream=True))),
                    tarfile.open(fileobj=stream, mode="r|") as tar,
                ):
                    tar.extractall(out, filter="data")
            except tarfile.TarError as error:
                # A command that cannot be run says so where its output would come.
                words = shorten(stream.began.decode(errors="replace"))
                raise EnvironmentFailure(f"tar in {self.name} gave no archive ({error}): {words}") from error
            status = api.exec_inspect(run)["ExitCode"]
        if status:
            raise EnvironmentFailure(f"tar failed in {self.name} with status {status}")

    def read_file(self, file: PurePosixPath) -> bytes:
        """A file's content, whether its process runs or not; empty if there is no such file."""
        from docker.errors import NotFound

        with translate_errors(f"{file} of {self.name} could not be read"):
            try:
                chunks, _ = self._handle.get_archive(str(file))
            except NotFound:
                return b""
            content = io.BytesIO(b"".join(chunks))
        with tarfile.open(fileobj=content) as tar:
            found = tar.extractfile(tar.next() or tarfile.TarInfo())
            return found.read() if found else b""

    def remove(self) -> None:
        """End it and remove it, with its volumes. Raises `EnvironmentFailure`."""
        from docker.errors import NotFound

        with translate_errors(f"{self.name} could not be removed"):
            try:
                self._handle.remove(force=True, v=True)
            except NotFound:
                return
        self.await_output()

    def await_output(self) -> None:
        """Wait until all that its last process printed is in the log file."""
        if self._follower is not None:
            self._follower.join(END_TIMEOUT_S)

    def _alive(self) -> ContainerState:
        state = self.state()
        if state.status not in ("running", "paused"):
            raise FaultFailed(
                f"{self.name} is not there: it is {state.status}, with exit status {state.exit_code}"
            )
        return state

    def _signal(self, signal: str) -> None:
        with translate_errors(f"{self.name} could not be sent {signal}", FaultFailed):
            self._handle.kill(signal)

    def _ending(self, before: ContainerState, wanted: int, words: str) -> str:
        last = before

        def over() -> bool:
            nonlocal last
            last = self.state()
            return last.over

        wait_for(over, f"the end of {self.name}", END_TIMEOUT_S, every_s=0.02, last_seen=lambda: last)
        if last.exit_code != wanted or last.out_of_memory:
            raise FaultFailed(f"{self.name} ended, but not by this fault: {last}")
        return f"container {self.name} (process {before.pid}) {words}"

    def _follow(self, output: Any) -> None:
        """Until its process ends, or Docker does: who then asks is told so, and what was printed is in the log."""
        from urllib3.exceptions import HTTPError

        with self.log_file.open("ab", buffering=0) as log:
            try:
                for chunk in output:
                    log.write(chunk)
            except (OSError, HTTPError) as error:
                _log.warning("the output of %s ends early: %s", self.name, error)


class _Chunks(io.RawIOBase):
    """A stream of chunks as a file that can be read once."""

    def __init__(self, chunks: Any) -> None:
        self._chunks = chunks
        self._left = b""
        self.began = b""  # its first bytes

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._left:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._left = chunk
            self.began = self.began or chunk[:FIRST_BYTES]
        taken, self._left = self._left[: len(buffer)], self._left[len(buffer) :]
        buffer[: len(taken)] = taken
        return len(taken)
