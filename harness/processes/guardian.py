"""The guardian: a process that ends everything of a run when the run ends without a goodbye.

It is spawned first, in a session of its own, and reads a pipe from the run, on which the run tells
what it registers. If the pipe ends without a goodbye (the run was killed), it ends every process
that carries the run's mark and removes the registered folders.

There is no race with a child that the run was just spawning: a forked child holds the pipe's
other end until it has become the new program, and that program carries the mark.
"""

import ctypes
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

import harness
from harness.common.errors import WaitTimeout
from harness.processes.encoding import decode, encode
from harness.processes.marks import (
    VARIABLE,
    end_marked,
    is_abandoned,
    marked_processes,
    process_texts,
    start_time,
)

SCRATCH_PREFIX = "fencepost-"
UNMARKED_PREFIXES = tuple(f"fencepost-{what}-" for what in ("spark", "judge", "session", "api"))
"""How the names of folders begin that bear no mark: Spark's, a session's, and those of a call from Python."""
UNUSED_S = 600.0
COMMAND_TIMEOUT_S = 120.0
_IPC_RMID = 0
_DEAF_TO = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # what ends a terminal or a job
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class FolderLeft:
    """A folder to remove."""

    path: Path
    kind: Literal["folder"] = "folder"


@dataclass(frozen=True)
class ProcessLeft:
    """A process to kill. Its start time tells it from another that has got its number."""

    pid: int
    start: int | None  # as `marks.start_time` has it; None: it has ended already
    kind: Literal["process"] = "process"


@dataclass(frozen=True)
class SharedMemoryLeft:
    """A System V segment of shared memory to remove."""

    number: int
    kind: Literal["shared-memory"] = "shared-memory"


@dataclass(frozen=True)
class CleanUpCommand:
    """A command to run once all processes are gone."""

    argv: tuple[str, ...]
    kind: Literal["command"] = "command"


@dataclass(frozen=True)
class Goodbye:
    """The run has cleaned up itself."""

    kind: Literal["goodbye"] = "goodbye"


@dataclass(frozen=True)
class GuardianMessage:
    """A line from the run to the guardian."""

    content: FolderLeft | ProcessLeft | SharedMemoryLeft | CleanUpCommand | Goodbye


class Guardian:
    """The run's end of the pipe. `register` what must go, `goodbye` when all is already gone."""

    def __init__(self, mark: str) -> None:
        # What is blocked here is blocked in the child from its first instruction on.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _DEAF_TO)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "harness.processes.guardian", mark],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=_environment(),
                start_new_session=True,
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    @property
    def pid(self) -> int:
        """Of the guardian's own process."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether somebody still watches over the run."""
        return self._process.poll() is None

    def register_folder(self, folder: Path) -> None:
        """A folder to remove if the run is killed."""
        self._tell(GuardianMessage(FolderLeft(folder.resolve())))

    def register_process(self, pid: int) -> None:
        """A process to end if the run is killed, whatever becomes of its environment."""
        self._tell(GuardianMessage(ProcessLeft(pid, start_time(pid))))

    def register_shared_memory(self, number: int) -> None:
        """A System V segment of shared memory to remove if the run is killed: it outlives whoever made it."""
        self._tell(GuardianMessage(SharedMemoryLeft(number)))

    def register_command(self, command: Sequence[str]) -> None:
        """A command to run if the run is killed, once its processes are gone."""
        self._tell(GuardianMessage(CleanUpCommand(tuple(command))))

    def goodbye(self) -> None:
        """The run has cleaned up: the guardian leaves without doing anything."""
        self._tell(GuardianMessage(Goodbye()))
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
        except BrokenPipeError:
            _log.warning("the guardian process had ended before the run said goodbye")
        self._process.wait()

    def _tell(self, message: GuardianMessage) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(encode(message) + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            _log.warning("the guardian process has ended; nothing watches over the run")


def _environment() -> dict[str, str]:
    """The guardian's own: it carries no mark, not even that of a run around this one."""
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    house = str(Path(harness.__file__).parents[1])
    environment["PYTHONPATH"] = os.pathsep.join([house, *filter(None, [os.environ.get("PYTHONPATH")])])
    return environment


def sweep_leftovers() -> list[str]:
    """End what runs have left whose own process and guardian are both gone; call it when a run starts.

    Only processes and scratch folders of runs that are certainly over are touched. Returns what
    was ended and removed, for people to read.
    """
    gone = end_marked({mark for _, mark in marked_processes() if is_abandoned(mark)})
    for folder in Path(tempfile.gettempdir()).glob(SCRATCH_PREFIX + "*"):
        mark = folder.name.removeprefix(SCRATCH_PREFIX).partition("-")[0]
        if is_abandoned(mark) and folder.stat().st_uid == os.getuid():
            shutil.rmtree(folder, ignore_errors=True)
            gone.append(f"folder {folder}")
    return gone + _sweep_unmarked()


def _sweep_unmarked() -> list[str]:
    """Remove the folders that no process names any more, and that are older than a start takes.

    Whoever uses one has it in its environment or on its command line.
    """
    gone = []
    named: str | None = None
    for folder in (
        one for prefix in UNMARKED_PREFIXES for one in Path(tempfile.gettempdir()).glob(prefix + "*")
    ):
        try:
            found = folder.stat()
        except FileNotFoundError:  # its own process has removed it meanwhile
            continue
        if found.st_uid != os.getuid() or time.time() - found.st_mtime < UNUSED_S:
            continue
        named = named if named is not None else process_texts()
        if str(folder) not in named:
            shutil.rmtree(folder, ignore_errors=True)
            gone.append(f"folder {folder}")
    return gone


def watch(mark: str, pipe: IO[bytes]) -> None:
    """Read the pipe to its end, and clean up unless the run said goodbye."""
    left: list[FolderLeft | ProcessLeft | SharedMemoryLeft | CleanUpCommand] = []
    for line in pipe:
        if not line.endswith(b"\n"):
            break  # the run was killed while it wrote
        content = decode(GuardianMessage, line).content
        if isinstance(content, Goodbye):
            return
        left.append(content)
    for one in left:
        if isinstance(one, ProcessLeft) and one.start is not None and start_time(one.pid) == one.start:
            os.kill(one.pid, signal.SIGKILL)
    try:
        end_marked([mark])
    except WaitTimeout as error:
        _log.warning("%s", error)  # and still remove the folders
    for one in left:
        if isinstance(one, SharedMemoryLeft):
            remove_shared_memory(one.number)
        elif isinstance(one, FolderLeft):
            shutil.rmtree(one.path, ignore_errors=True)
    for one in left:  # last: a command may need that all else is gone
        if isinstance(one, CleanUpCommand):
            subprocess.run(
                one.argv, stdin=subprocess.DEVNULL, env=_environment(), timeout=COMMAND_TIMEOUT_S, check=False
            )


def remove_shared_memory(number: int) -> None:
    """Remove a System V segment of shared memory; one that is gone already is no error."""
    ctypes.CDLL(None).shmctl(number, _IPC_RMID, None)


def main() -> None:
    """Be the guardian, until the run has ended."""
    os.chdir("/")
    watch(sys.argv[1], sys.stdin.buffer)


if __name__ == "__main__":
    main()
