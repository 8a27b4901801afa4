"""The guardian: a process that cleans up after a run that was killed. A mark identifies the run's processes.

A mark contains pid and start time of the run's own process, so that others can find out later whether the run is still
running. `4711.1234567.4026531836.9f86d081` is pid, start time, pid namespace and a random part. Children inherit the
environment, so grandchildren have the mark too.

The guardian is started before all other processes, in its own session. The run sends it messages through a pipe: what
to clean up, and finally a goodbye. If the pipe ends without a goodbye, the run was killed. Then the guardian kills
every process with the mark of the run, and removes the registered folders.

This is safe even while the run starts a child. A forked child keeps the pipe open until it has become the new program,
and that program has the mark.
"""

import ctypes
import logging
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO

import psutil

import harness
from harness.common.errors import WaitTimeout
from harness.common.waiting import wait_for
from harness.processes.messages import ProcessMessage, decode, encode

_log = logging.getLogger(__name__)

VARIABLE = "FENCEPOST_RUN"
_KTHREADD = 2  # the parent of Linux's kernel threads, which have no environment either
_MARK = re.compile(r"(\d+)\.(\d+)\.(\d+)\.[0-9a-f]+")
SCRATCH_PREFIX = "fencepost-"
UNMARKED_PREFIXES = tuple(f"fencepost-{user}-" for user in ("spark", "judge", "session", "api"))
"""Prefixes of scratch folders without a mark in their names: of Spark, of a session, and of a call from Python."""
UNUSED_S = 600.0
COMMAND_TIMEOUT_S = 120.0
_IPC_RMID = 0
_IGNORED_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # sent when a terminal or a job ends


def start_time(pid: int) -> int | None:
    """Return the start time of a process, or None if it does not exist. Use it only to compare for equality.

    A process that has ended but is not reaped counts as not existing. On Linux, the unit is ticks since the boot of the
    machine, so a change of the wall clock does not affect it.
    """
    try:
        process = psutil.Process(pid)
        if process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
            return None
        stat = Path(f"/proc/{pid}/stat")
        if stat.exists():
            return int(stat.read_text(encoding="utf-8").rpartition(")")[2].split()[19])
        return int(process.create_time() * 1000)
    except (psutil.Error, OSError):
        return None


def new_mark() -> str:
    """Return a new mark for a run in this process."""
    return f"{os.getpid()}.{start_time(os.getpid())}.{_namespace()}.{secrets.token_hex(4)}"


def _namespace() -> int:
    """Return the pid namespace, because a pid is unique only within it; 0 if the system has no namespaces."""
    try:
        return Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        return 0


def is_abandoned(mark: str) -> bool:
    """Return whether the run with this mark has certainly ended."""
    parts = _MARK.fullmatch(mark)
    if parts is None or int(parts[3]) != _namespace():
        return False
    return start_time(int(parts[1])) != int(parts[2])


def marked_processes() -> Iterator[tuple[psutil.Process, str]]:
    """Yield every live process of this user that has a mark, and its mark, except this process."""
    for process, environment in _environments():
        if VARIABLE in environment:
            yield process, environment[VARIABLE]


def _environments() -> Iterator[tuple[psutil.Process, dict[str, str]]]:
    for process in psutil.process_iter():
        if process.pid == os.getpid():
            continue
        try:
            environment = process.environ()
            if process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
                yield process, environment
        except (psutil.Error, OSError):  # it has just ended, or belongs to another user
            continue


def process_texts() -> str:
    """Return the concatenated command lines and environment values of all processes that this user may inspect."""
    texts: list[str] = []
    for process, environment in _environments():
        texts += environment.values()
        try:
            texts += process.cmdline()
        except psutil.Error:  # it has just ended
            continue
    return "\n".join(texts)


def _may_be_between_fork_and_exec(process: psutil.Process, environment: dict[str, str]) -> bool:
    """Return whether a process may be between fork and exec. In that moment its environment is not visible."""
    try:
        return not environment and process.ppid() != _KTHREADD and time.time() - process.create_time() < 2
    except psutil.NoSuchProcess:
        return False


def end_marked(marks: Iterable[str], timeout_s: float = 30.0) -> list[str]:
    """Kill every process that has one of the marks, until two searches in a row find none. Stopped processes end too.

    Returns descriptions of the killed processes: `process 4711 (java)`. Raises `WaitTimeout` if a process does not end.
    """
    wanted = set(marks)
    ended: dict[int, str] = {}
    empty_searches = 0

    def none_left() -> bool:
        nonlocal empty_searches
        processes = list(_environments())
        matching = [process for process, environment in processes if environment.get(VARIABLE) in wanted]
        for process in matching:
            try:
                ended.setdefault(process.pid, f"process {process.pid} ({process.name()})")
                process.kill()
            except psutil.NoSuchProcess:
                continue
        is_quiet = not matching and not any(_may_be_between_fork_and_exec(*process) for process in processes)
        empty_searches = empty_searches + 1 if is_quiet else 0
        return empty_searches >= 2

    if wanted:
        wait_for(none_left, "the end of the run's processes", timeout_s, every_s=0.02)
    return list(ended.values())


class FolderToRemove(ProcessMessage, frozen=True, tag_field="kind", tag="folder"):
    """A folder to remove."""

    path: Path


class ProcessToKill(ProcessMessage, frozen=True, tag_field="kind", tag="process"):
    """A process to kill. Its start time distinguishes it from a later process with the same pid."""

    pid: int
    start: int | None  # from `marks.start_time`; None: the process has already ended


class SharedMemoryToRemove(ProcessMessage, frozen=True, tag_field="kind", tag="shared-memory"):
    """A System V segment of shared memory to remove."""

    number: int


class CleanUpCommand(ProcessMessage, frozen=True, tag_field="kind", tag="command"):
    """A command to run after all processes have ended."""

    argv: tuple[str, ...]


class Goodbye(ProcessMessage, frozen=True, tag_field="kind", tag="goodbye"):
    """The run has cleaned up, so the guardian must do nothing."""


class GuardianMessage(ProcessMessage, frozen=True):
    """A message from the run to the guardian, sent as one line."""

    content: FolderToRemove | ProcessToKill | SharedMemoryToRemove | CleanUpCommand | Goodbye


class Guardian:
    """Starts the guardian process and sends it messages.

    Call a `register` method for everything that must be cleaned up, and `goodbye` after the run has cleaned up itself.
    """

    def __init__(self, mark: str) -> None:
        # The child inherits the blocked signals, so it never reacts to them.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _IGNORED_SIGNALS)
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
        """The pid of the guardian process."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Return whether the guardian process is running."""
        return self._process.poll() is None

    def register_folder(self, folder: Path) -> None:
        """Register a folder, to remove if the run is killed."""
        self._send(GuardianMessage(FolderToRemove(folder.resolve())))

    def register_process(self, pid: int) -> None:
        """Register a process, to kill if the run is killed, even if it removes the mark from its environment."""
        self._send(GuardianMessage(ProcessToKill(pid, start_time(pid))))

    def register_shared_memory(self, number: int) -> None:
        """Register a System V shared memory segment, to remove if the run is killed."""
        self._send(GuardianMessage(SharedMemoryToRemove(number)))

    def register_command(self, command: Sequence[str]) -> None:
        """Register a command, to run after the processes have ended if the run is killed."""
        self._send(GuardianMessage(CleanUpCommand(tuple(command))))

    def goodbye(self) -> None:
        """Tell the guardian that the run has cleaned up, and wait until the guardian ends."""
        self._send(GuardianMessage(Goodbye()))
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
        except BrokenPipeError:
            _log.warning("the guardian process had ended before the run said goodbye")
        self._process.wait()

    def _send(self, message: GuardianMessage) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(encode(message) + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            _log.warning("the guardian process has ended; if the run is killed now, nothing cleans up")


def _environment() -> dict[str, str]:
    """Return the environment of the guardian, without any mark, even that of an outer run."""
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    source_folder = str(Path(harness.__file__).parents[1])
    environment["PYTHONPATH"] = os.pathsep.join(
        [source_folder, *filter(None, [os.environ.get("PYTHONPATH")])]
    )
    return environment


def sweep_leftovers() -> list[str]:
    """Clean up after runs whose process and guardian have both ended. Call it when a run starts.

    It touches only processes and scratch folders of runs that have certainly ended. Returns descriptions, for messages,
    of what it has killed and removed.
    """
    removed = end_marked({mark for _, mark in marked_processes() if is_abandoned(mark)})
    for folder in Path(tempfile.gettempdir()).glob(SCRATCH_PREFIX + "*"):
        mark = folder.name.removeprefix(SCRATCH_PREFIX).partition("-")[0]
        if is_abandoned(mark) and folder.stat().st_uid == os.getuid():
            shutil.rmtree(folder, ignore_errors=True)
            removed.append(f"folder {folder}")
    return removed + _sweep_unmarked()


def _sweep_unmarked() -> list[str]:
    """Remove unmarked folders that no process uses, if they are so old that the process they are for must have started.

    A process that uses such a folder has its path in its environment or on its command line.
    """
    removed = []
    texts: str | None = None
    temporary = Path(tempfile.gettempdir())
    for folder in (folder for prefix in UNMARKED_PREFIXES for folder in temporary.glob(prefix + "*")):
        try:
            status = folder.stat()
        except FileNotFoundError:  # its process has just removed it
            continue
        if status.st_uid != os.getuid() or time.time() - status.st_mtime < UNUSED_S:
            continue
        texts = texts if texts is not None else process_texts()
        if str(folder) not in texts:
            shutil.rmtree(folder, ignore_errors=True)
            removed.append(f"folder {folder}")
    return removed


def watch(mark: str, pipe: IO[bytes]) -> None:
    """Read messages until the pipe ends. Then clean up, unless the last message is a goodbye."""
    resources: list[FolderToRemove | ProcessToKill | SharedMemoryToRemove | CleanUpCommand] = []
    for line in pipe:
        if not line.endswith(b"\n"):
            break  # the run was killed while it wrote a message
        content = decode(GuardianMessage, line).content
        if isinstance(content, Goodbye):
            return
        resources.append(content)
    for resource in resources:
        if isinstance(resource, ProcessToKill) and _is_same_process(resource):
            os.kill(resource.pid, signal.SIGKILL)
    try:
        end_marked([mark])
    except WaitTimeout as error:
        _log.warning("%s", error)  # go on, and remove the folders
    for resource in resources:
        if isinstance(resource, SharedMemoryToRemove):
            remove_shared_memory(resource.number)
        elif isinstance(resource, FolderToRemove):
            shutil.rmtree(resource.path, ignore_errors=True)
    for resource in resources:  # last, because a command may need that everything else is removed
        if isinstance(resource, CleanUpCommand):
            subprocess.run(
                resource.argv,
                stdin=subprocess.DEVNULL,
                env=_environment(),
                timeout=COMMAND_TIMEOUT_S,
                check=False,
            )


def _is_same_process(process: ProcessToKill) -> bool:
    return process.start is not None and start_time(process.pid) == process.start


def remove_shared_memory(number: int) -> None:
    """Remove a System V shared memory segment. Do nothing if it does not exist."""
    ctypes.CDLL(None).shmctl(number, _IPC_RMID, None)


def main() -> None:
    """Run the guardian process."""
    os.chdir("/")
    watch(sys.argv[1], sys.stdin.buffer)


if __name__ == "__main__":
    main()
