"""Start child processes that cannot outlive the run.

A `Supervisor` is a context manager that is entered first and left last. It starts the guardian before all other
processes. Every child has the mark of the run and its own session, so that Ctrl-C in a terminal reaches only the run.
When the supervisor is left, it kills all remaining children.
"""

import logging
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO

from harness.common.errors import EnvironmentFailure, StartFailed
from harness.processes.child import BoundedLog, Child
from harness.processes.guardian import SCRATCH_PREFIX, VARIABLE, Guardian, end_marked, new_mark

_log = logging.getLogger(__name__)

_NAMES = ("nobody", "daemon")
_QUIET: Mapping[str, Mapping[str, str]] = {"toxiproxy": {"LOG_LEVEL": "error"}, "protocol-proxy": {}}
"""By program: environment variables that reduce its log. These programs also get a bounded log.

By default, toxiproxy logs about ten lines for each connection, 640 kB a minute. At the level `error` it still logs one
line for each connection that a stopped broker refuses. Errors are needed, because they say why toxiproxy failed.
"""


@dataclass(frozen=True)
class User:
    """The user that a process runs as."""

    name: str
    uid: int
    gid: int

    def take_ownership(self, folder: Path) -> None:
        """Make this user the owner of a folder."""
        os.chown(folder, self.uid, self.gid)

    def can_read(self, path: Path) -> bool:
        """Return whether the user may read `path` and enter every folder above it."""
        resolved = path.resolve()
        return all(folder.stat().st_mode & 0o001 for folder in resolved.parents) and bool(
            resolved.stat().st_mode & 0o004
        )


def unprivileged_user() -> User | None:
    """Return the user for a server that must not run as root. Return None if this process does not run as root.

    Raises `EnvironmentFailure` if the system has no such user.
    """
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name: entry for entry in pwd.getpwall()}
    unprivileged = next((known[name] for name in _NAMES if name in known), None)
    if unprivileged is None:
        raise EnvironmentFailure(
            "PostgreSQL refuses to run as root, and this system has neither a user nobody nor a user daemon: "
            "run Fencepost as a user other than root"
        )
    return User(unprivileged.pw_name, unprivileged.pw_uid, unprivileged.pw_gid)


class Supervisor:
    """Starts and ends the processes of one run. It is a context manager."""

    def __init__(self, mark: str | None = None) -> None:
        self.mark = mark or new_mark()
        # Copied now: Fencepost's own Spark changes the environment later, and a user's Spark must not inherit that.
        self._environment = dict(os.environ)
        self._guardian: Guardian | None = None
        self._children: list[Child] = []
        self._folders: list[Path] = []
        self._logs: list[BoundedLog] = []
        self._closed = False
        self._lock = threading.Lock()

    def __enter__(self) -> "Supervisor":
        self._guardian = Guardian(self.mark)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    @property
    def alive(self) -> bool:
        """Return whether the guardian is running."""
        return self._guardian is not None and self._guardian.alive

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables that a process needs if it is started without the supervisor (for example, that of Spark)."""
        return {VARIABLE: self.mark}

    def spawn(
        self,
        args: Sequence[str | Path],
        *,
        name: str,
        log_file: Path | None = None,
        error_file: Path | None = None,
        env: Mapping[str, str] | None = None,
        pass_fds: Sequence[int] = (),
        stdin: int | IO[bytes] = subprocess.DEVNULL,
        cwd: Path | None = None,
        user: User | None = None,
        bounded: bool = False,
    ) -> Child:
        """Start a process. Its output is appended to `log_file`.

        Args:
            args: The command.
            name: The name of the process in messages.
            log_file: The file for its output; None: the output is dropped.
            error_file: The file for its standard error; None: the same as for its output.
            env: Variables that are added to the environment of the run.
            pass_fds: File descriptors that the process inherits.
            stdin: Its standard input.
            cwd: Its working directory.
            user: The user that it runs as; None: the user of this process.
            bounded: Keep only the first and the last part of its output.

        Raises:
            StartFailed: The process cannot be started.
            EnvironmentFailure: The guardian has ended, or the run is ending. In the latter case, a fault that is still
                active must not start processes that would be left over.
        """
        if not self.alive:
            raise EnvironmentFailure(
                f"{name} was not started, because the guardian process, which cleans up if the run is killed, "
                "has ended: start the run again"
            )
        with self._lock:
            if self._closed:
                raise EnvironmentFailure(f"{name} was not started, because the run is ending")
            pipe = BoundedLog(log_file) if log_file and (bounded or name in _QUIET) else None
            try:
                with (
                    (log_file or Path(os.devnull)).open("ab") as output,
                    (error_file or Path(os.devnull)).open("ab") as errors,
                ):
                    process = subprocess.Popen(
                        [str(argument) for argument in args],
                        stdin=stdin,
                        stdout=pipe.write_end if pipe else output,
                        stderr=errors if error_file else subprocess.STDOUT,
                        env={**self._environment, **_QUIET.get(name, {}), **(env or {}), **self.environment},
                        pass_fds=tuple(pass_fds),
                        cwd=cwd,
                        start_new_session=True,
                        user=user.uid if user else None,
                        group=user.gid if user else None,
                        extra_groups=() if user else None,
                    )
            except (OSError, subprocess.SubprocessError) as error:
                raise StartFailed(f"{name} could not be started: {error}") from error
            finally:
                if pipe:
                    pipe.close_write_end()
                    self._logs.append(pipe)
            child = Child(process, name, log_file, pipe)
            assert self._guardian is not None
            self._guardian.register_process(child.pid)
            self._children = [running for running in self._children if running.poll() is None] + [child]
        return child

    def guard_folder(self, folder: Path) -> None:
        """Let the guardian remove a folder if the run is killed."""
        assert self._guardian is not None
        self._guardian.register_folder(folder)

    def guard_with_command(self, command: Sequence[str]) -> None:
        """Let the guardian run a command if the run is killed, to clean up what is neither a process nor a folder."""
        assert self._guardian is not None
        self._guardian.register_command(command)

    def guard_shared_memory(self, number: int) -> None:
        """Let the guardian remove a System V shared memory segment if the run is killed."""
        assert self._guardian is not None
        self._guardian.register_shared_memory(number)

    def scratch_folder(self, name: str) -> Path:
        """Create a temporary folder. It is removed when the run ends, even if the run is killed."""
        folder = Path(tempfile.mkdtemp(prefix=f"{SCRATCH_PREFIX}{self.mark}-{name}-"))
        self.guard_folder(folder)
        self._folders.append(folder)
        return folder

    def _close(self) -> None:
        """Kill all children and their descendants, remove the scratch folders, and end the guardian."""
        assert self._guardian is not None
        with self._lock:
            self._closed = True
        for child in self._children:
            child.signal(signal.SIGKILL)
        try:
            for child in self._children:
                child.wait(10.0)
            ended = end_marked([self.mark])
        except EnvironmentFailure as error:
            _log.error("processes of the run did not end: %s", error)  # the guardian tries again
            return
        if ended:
            _log.info("killed processes that children had started: %s", ", ".join(ended))
        for pipe in self._logs:
            pipe.wait(10.0)
        for folder in self._folders:
            shutil.rmtree(folder, ignore_errors=True)
        self._guardian.goodbye()
