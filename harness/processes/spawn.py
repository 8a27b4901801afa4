"""Spawn children that cannot outlive the run.

A `Supervisor` is entered first and left last. It starts the guardian before anything else, gives
every child the run's mark and a session of its own (so that Ctrl-C in a terminal reaches only the
run), and ends whatever is left when it is left itself.
"""

import logging
import os
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO

from harness.common.errors import EnvironmentFailure, StartFailed
from harness.processes.bounded_log import BoundedLog
from harness.processes.child import Child
from harness.processes.guardian import SCRATCH_PREFIX, Guardian
from harness.processes.marks import VARIABLE, end_marked, new_mark
from harness.processes.users import User

_log = logging.getLogger(__name__)

_QUIET: Mapping[str, Mapping[str, str]] = {"toxiproxy": {"LOG_LEVEL": "error"}, "kafka-proxy": {}}
"""By default toxiproxy logs some ten lines a connection, 640 kB a minute; its errors say why it failed.

What is named here has a bounded log as well: at this level there is still a line for each connection that a
broker which is down refuses.
"""


class Supervisor:
    """All processes of one run; a context manager."""

    def __init__(self, mark: str | None = None) -> None:
        self.mark = mark or new_mark()
        # As it is now: what our own Spark adds later would make a user's Spark one with ours.
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
        """Whether the guardian still watches over the run."""
        return self._guardian is not None and self._guardian.alive

    @property
    def environment(self) -> Mapping[str, str]:
        """What a process that is spawned elsewhere (Spark's, say) needs in its environment."""
        return {VARIABLE: self.mark}

    def spawn(
        self,
        args: Sequence[str | Path],
        *,
        name: str,
        log_file: Path | None = None,
        env: Mapping[str, str] | None = None,
        pass_fds: Sequence[int] = (),
        stdin: int | IO[bytes] = subprocess.DEVNULL,
        cwd: Path | None = None,
        user: User | None = None,
        bounded: bool = False,
    ) -> Child:
        """Start a process; what it prints is appended to `log_file`.

        `env` goes on top of the run's own environment; `user`: who it runs as, if not as this process; `bounded`: its
        log keeps its first and its last part alone.
        Raises `StartFailed`, and `EnvironmentFailure` once the run is ending: a fault that is still at work then may
        not leave a process behind.
        """
        if not self.alive:
            raise EnvironmentFailure(
                f"{name} was not started: the guardian process, which ends everything "
                "if the run is killed, is gone; start the run again"
            )
        with self._lock:
            if self._closed:
                raise EnvironmentFailure(f"{name} was not started: the run is ending")
            pipe = BoundedLog(log_file) if log_file and (bounded or name in _QUIET) else None
            try:
                with (log_file or Path(os.devnull)).open("ab") as output:
                    process = subprocess.Popen(
                        [str(argument) for argument in args],
                        stdin=stdin,
                        stdout=pipe.write_end if pipe else output,
                        stderr=subprocess.STDOUT,
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
                    pipe.started()
                    self._logs.append(pipe)
            child = Child(process, name, log_file, pipe)
            assert self._guardian is not None
            self._guardian.register_process(child.pid)
            self._children = [one for one in self._children if one.poll() is None] + [child]
        return child

    def guard_folder(self, folder: Path) -> None:
        """Have the guardian remove a folder if the run is killed."""
        assert self._guardian is not None
        self._guardian.register_folder(folder)

    def guard_with_command(self, command: Sequence[str]) -> None:
        """Have the guardian run a command if the run is killed: for what is no process and no folder here."""
        assert self._guardian is not None
        self._guardian.register_command(command)

    def guard_shared_memory(self, number: int) -> None:
        """Have the guardian remove a System V segment of shared memory if the run is killed."""
        assert self._guardian is not None
        self._guardian.register_shared_memory(number)

    def scratch_folder(self, name: str) -> Path:
        """A new folder in the machine's temporary place, which goes when the run ends, however it ends."""
        folder = Path(tempfile.mkdtemp(prefix=f"{SCRATCH_PREFIX}{self.mark}-{name}-"))
        self.guard_folder(folder)
        self._folders.append(folder)
        return folder

    def _close(self) -> None:
        """End every child and every child of a child, remove the scratch folders, dismiss the guardian."""
        assert self._guardian is not None
        with self._lock:
            self._closed = True
        for child in self._children:
            child.signal(signal.SIGKILL)
        try:
            for child in self._children:
                child.wait(10.0)
            left = end_marked([self.mark])
        except EnvironmentFailure as error:
            _log.error("the run left processes: %s", error)  # the guardian tries again
            return
        if left:
            _log.info("ended what children had left: %s", ", ".join(left))
        for pipe in self._logs:
            pipe.wait(10.0)
        for folder in self._folders:
            shutil.rmtree(folder, ignore_errors=True)
        self._guardian.goodbye()
