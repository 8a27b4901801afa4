"""A PostgreSQL server as a child process of the run. It can be killed with all its processes, and started again.

It listens on a loopback port of the run. Its data are in a scratch folder, which is deleted when the run ends, even if
the run is killed. Each process of the server is the leader of its own session, so a signal to a process group reaches
only one of them.
"""

import os
import shutil
import signal
import time
from contextlib import suppress
from pathlib import Path

import psutil
import psycopg

from harness.common.errors import EnvironmentFailure, StartFailed, WaitTimeout
from harness.common.waiting import wait_for
from harness.environment.postgres import Postgres
from harness.environment.resources import HOST
from harness.processes.child import Child
from harness.processes.spawn import Supervisor, unprivileged_user

USER = "fencepost"
MAKE_TIMEOUT_S = 60.0
START_TIMEOUT_S = 60.0
END_TIMEOUT_S = 15.0
IDLE_TIMEOUT_MS = 4_000
"""The server ends a transaction that is idle for so long, so that a zombie does not keep row locks."""
_SETTINGS = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",
    "fsync": "on",
    "synchronous_commit": "on",
    "shared_buffers": "32MB",
    "max_connections": "200",
    "idle_in_transaction_session_timeout": f"{IDLE_TIMEOUT_MS}ms",
    "dynamic_shared_memory_type": "mmap",  # files in the data folder, which is deleted after the run
    "max_wal_size": "512MB",
    "timezone": "UTC",
}
_SEGMENT_LINE = 6
"""The line of `postmaster.pid` with the key and the id of the shared System V memory segment."""


class PostgresServer:
    """A `Service`."""

    name = "postgres"

    def __init__(self, postgres: Postgres, folder: Path, supervisor: Supervisor, port: int) -> None:
        """Prepare to run a server whose log is in `folder`. Raises `EnvironmentFailure`."""
        self._supervisor = supervisor
        self._log = folder / "postgres.log"
        self._port = port
        self._user = unprivileged_user()
        scratch = supervisor.scratch_folder("postgres")
        self._data = scratch / "data"
        self._programs = self._reachable(postgres, scratch)
        if self._user is not None:
            self._user.take_ownership(scratch)
        self._child: Child | None = None
        self._killed = False

    @property
    def conninfo(self) -> str:
        """Return the connection string for clients."""
        return f"host={HOST} port={self._port} user={USER} dbname=postgres connect_timeout=5"

    @property
    def is_healthy(self) -> bool:
        return self._killed or (self._child is not None and self._child.poll() is None)

    def make(self) -> None:
        """Create the data folder with initdb. Raises `EnvironmentFailure`."""
        initdb = self._spawn(
            "initdb",
            *("--pgdata", str(self._data), "--username", USER, "--auth", "trust"),
            *("--encoding", "UTF8", "--no-locale", "--no-sync"),
        )
        if initdb.wait(MAKE_TIMEOUT_S) != 0:
            raise StartFailed(f"initdb could not create PostgreSQL's data folder: {self._last_log_line()}")

    def start(self) -> str:
        if self._child is not None and self._child.poll() is None:
            return "it was still running"
        begun_s = time.monotonic()
        settings = [word for name, value in _SETTINGS.items() for word in ("-c", f"{name}={value}")]
        child = self._child = self._spawn("postgres", "-D", str(self._data), "-p", str(self._port), *settings)

        def answers() -> bool:
            if child.poll() is not None:
                raise StartFailed(f"PostgreSQL ended while it started: {self._last_log_line()}")
            return self._answers()

        wait_for(answers, "PostgreSQL to answer", START_TIMEOUT_S, last_seen=self._last_log_line)
        self._killed = False
        self._guard_segment()
        return f"it answered after {time.monotonic() - begun_s:.1f} s"

    def kill(self) -> str:
        assert self._child is not None
        self._killed = True
        pid = self._child.pid
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)  # otherwise the postmaster would restart processes that end
        descendants = self._descendants()
        for process in descendants:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        ending = self._child.kill()
        wait_for(
            lambda: not any(map(_is_alive, descendants)),
            "the end of PostgreSQL's processes",
            END_TIMEOUT_S,
            every_s=0.005,
            last_seen=lambda: [process.pid for process in descendants if _is_alive(process)],
        )
        return f"{ending}, and so did {len(descendants)} processes that it had started"

    def stop(self) -> None:
        """Shut the server down cleanly. If it does not end, kill it."""
        if self._child is None or self._child.poll() is not None:
            return
        try:
            self._child.signal(signal.SIGINT)  # a fast shutdown: clients are disconnected
            self._child.wait(END_TIMEOUT_S)
        except WaitTimeout:
            self.kill()

    def _descendants(self) -> list[psutil.Process]:
        assert self._child is not None
        try:
            return psutil.Process(self._child.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    def _answers(self) -> bool:
        try:
            with psycopg.connect(self.conninfo) as connection:
                return connection.execute("SELECT 1").fetchone() == (1,)
        except psycopg.Error:
            return False

    def _spawn(self, program: str, *arguments: str) -> Child:
        return self._supervisor.spawn(
            [self._programs / program, *arguments],
            name=program,
            log_file=self._log,
            cwd=self._data.parent,
            user=self._user,
            env={"LC_ALL": "C"},
        )

    def _reachable(self, postgres: Postgres, scratch: Path) -> Path:
        """Return the folder of PostgreSQL's programs. If the server's user cannot read a bundled one, copy it."""
        folder = postgres.folder
        if self._user is None or self._user.can_read(folder):
            return folder
        if not postgres.bundled:
            raise EnvironmentFailure(
                f"PostgreSQL does not run as root, and the user {self._user.name} cannot read {folder}: name another "
                "folder, or use postgres=bundled"
            )
        copy = scratch / postgres.root.parent.name / postgres.root.name
        for part in ("bin", "lib", "share"):
            shutil.copytree(postgres.root / part, copy / part, symlinks=True)
        libraries = postgres.root.parent.with_suffix(".libs")
        if libraries.is_dir():
            shutil.copytree(libraries, copy.parent.with_suffix(".libs"))
        return copy / folder.name

    def _guard_segment(self) -> None:
        lines = (self._data / "postmaster.pid").read_text(encoding="utf-8").splitlines()
        words = lines[_SEGMENT_LINE].split() if len(lines) > _SEGMENT_LINE else []
        if words and words[-1].isdecimal():
            self._supervisor.guard_shared_memory(int(words[-1]))

    def _last_log_line(self) -> str:
        text = self._log.read_text(errors="replace", encoding="utf-8").strip() if self._log.exists() else ""
        return text.splitlines()[-1] if text else "its log is empty"


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.NoSuchProcess:
        return False
