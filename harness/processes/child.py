"""A child process with the actions that faults need, and the bounded log of its output.

A child may be a shell or a launcher, whose own child does the work. So signals go to the process group that the child
leads; otherwise they would reach only the launcher.
"""

import os
import signal
import subprocess
import threading
from contextlib import suppress
from pathlib import Path

import psutil

from harness.common.errors import WaitTimeout
from harness.common.waiting import wait_for

LIMIT_BYTES = 512 * 1024
"""The limit of each of the three files: `x.log`, `x.log.before-last` and `x.log.last`."""
KILL_TIMEOUT_S = 10.0
PAUSE_TIMEOUT_S = 5.0
LOG_TIMEOUT_S = 1.0
NOT_RUNNING = (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)


class BoundedLog:
    """Copies the output of a process from a pipe to files. The process writes to `write_end`."""

    def __init__(self, path: Path, limit_bytes: int = LIMIT_BYTES) -> None:
        self._path = path
        self._limit_bytes = limit_bytes
        self._read_end, self.write_end = os.pipe()
        self._thread = threading.Thread(target=self._copy, name=f"log-{path.name}", daemon=True)
        self._thread.start()

    def close_write_end(self) -> None:
        """Close the copy of `write_end` in this process. Then the pipe ends when the other process ends."""
        os.close(self.write_end)

    def wait(self, timeout_s: float) -> None:
        """Wait until all output is in the files."""
        self._thread.join(timeout_s)

    def _copy(self) -> None:
        last = self._path.with_name(self._path.name + ".last")
        file, written = self._path, self._path.stat().st_size if self._path.exists() else 0
        with os.fdopen(self._read_end, "rb", buffering=0) as pipe:
            while data := pipe.read(64 * 1024):
                if written + len(data) > self._limit_bytes and written:
                    if file == last:
                        last.replace(self._path.with_name(self._path.name + ".before-last"))
                    file, written = last, 0
                with file.open("ab") as log:
                    log.write(data)
                written += len(data)


class Child:
    """A process and the process group that it leads. Each action returns after it took effect on the whole group."""

    def __init__(
        self,
        process: "subprocess.Popen[bytes]",
        name: str,
        log_file: Path | None,
        bounded: BoundedLog | None = None,
    ) -> None:
        self._process = process
        self.name = name
        self.log_file = log_file
        self._bounded = bounded  # copies the output to that file; None: the process writes to it itself

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def poll(self) -> int | None:
        """Return None while the process exists, then its exit status, which is negative if a signal ended it."""
        return self._process.poll()

    def wait(self, timeout_s: float) -> int:
        """Wait until the process ends, and return its exit status. Raises `WaitTimeout`."""
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise WaitTimeout(f"the end of {self.name}", timeout_s, self._state()) from None

    def await_log(self) -> None:
        """After the process has ended: wait, for at most a second, until all its output is in its log."""
        if self._bounded is not None and self.poll() is not None:
            self._bounded.wait(LOG_TIMEOUT_S)

    @property
    def paused(self) -> bool:
        """Return whether a signal has stopped the process, according to the kernel."""
        return self.poll() is None and (self._state() == psutil.STATUS_STOPPED or self._waits_for_stopped())

    @property
    def running(self) -> bool:
        """Return whether the process exists and is not stopped by a signal."""
        return self.poll() is None and self._state() != psutil.STATUS_STOPPED

    def kill(self) -> str:
        """Send SIGKILL and wait until the group has ended. It also works for a stopped process.

        Return how the process ended. `process 4711 ended by SIGKILL` proves that the signal ended it.
        """
        descendants = self._descendants()
        self.signal(signal.SIGKILL)
        self.wait(KILL_TIMEOUT_S)
        wait_for(
            lambda: not any(map(_alive, descendants)),
            f"the end of the processes that {self.name} has started",
            KILL_TIMEOUT_S,
            every_s=0.002,
            last_seen=lambda: [process.pid for process in descendants if _alive(process)],
        )
        return self.ending()

    def stop(self, timeout_s: float) -> str:
        """Send SIGTERM, wait until the process ends, and return how it ended. Raises `WaitTimeout`."""
        self.signal(signal.SIGTERM)
        self.signal(signal.SIGCONT)
        self.wait(timeout_s)
        return self.ending()

    def pause(self) -> str:
        """Send SIGSTOP, and wait until every thread of every process of the group is stopped.

        Raises `WaitTimeout`. If the process has ended, it raises at once.
        """
        self.signal(signal.SIGSTOP)
        description = f"{self.name} to be stopped by SIGSTOP"

        def stopped() -> bool:
            if self.poll() is not None:
                raise WaitTimeout(description, 0, self.ending())
            return self._all_stopped()

        wait_for(stopped, description, PAUSE_TIMEOUT_S, every_s=0.002, last_seen=self._state)
        descendants = self._descendants()
        wait_for(
            lambda: all(_state_of(process) in NOT_RUNNING for process in descendants),
            f"the processes that {self.name} has started to be stopped by SIGSTOP",
            PAUSE_TIMEOUT_S,
            every_s=0.002,
            last_seen=lambda: {process.pid: _state_of(process) for process in descendants},
        )
        return f"process {self.pid} stopped by SIGSTOP"

    def resume(self) -> str:
        """Send SIGCONT. Do nothing if the process is running or has ended."""
        if not self.paused:
            return f"process {self.pid} was not stopped"
        self.signal(signal.SIGCONT)
        wait_for(lambda: not self.paused, f"{self.name} to run again", PAUSE_TIMEOUT_S, every_s=0.002)
        return f"process {self.pid} continued by SIGCONT"

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the group. Do nothing if the process has ended."""
        if self.poll() is None:  # no other process can get its pid before it is reaped
            with suppress(ProcessLookupError):
                os.killpg(self.pid, number)

    def ending(self) -> str:
        """Return how the process ended: `process 4711 ended by SIGKILL`, or `process 4711 ended with status 1`."""
        code = self.poll()
        if code is None:
            return f"process {self.pid} has not ended"
        if code < 0:
            return f"process {self.pid} ended by {signal.Signals(-code).name}"
        return f"process {self.pid} ended with status {code}"

    def _state(self) -> str:
        try:
            return _state_of(psutil.Process(self.pid))
        except psutil.NoSuchProcess:
            return psutil.STATUS_DEAD

    def _waits_for_stopped(self) -> bool:
        """Return whether the process waits in `vfork` for a child that a signal has stopped."""
        return self._state() == psutil.STATUS_DISK_SLEEP and any(
            _state_of(process) == psutil.STATUS_STOPPED for process in self._descendants()
        )

    def _descendants(self) -> list[psutil.Process]:
        """Return the descendants of the process that are in its group."""
        descendants = []
        with suppress(psutil.NoSuchProcess):
            for process in psutil.Process(self.pid).children(recursive=True):
                with suppress(ProcessLookupError):
                    if os.getpgid(process.pid) == self.pid:
                        descendants.append(process)
        return descendants

    def _all_stopped(self) -> bool:
        if not hasattr(os, "waitid") or self._waits_for_stopped():
            return self.paused
        # The kernel reports a stop to the parent after the last thread has stopped; the main thread may stop earlier.
        options = os.WSTOPPED | os.WNOHANG | os.WNOWAIT
        return self.paused and os.waitid(os.P_PID, self.pid, options) is not None


def _state_of(process: psutil.Process) -> str:
    try:
        return process.status()
    except psutil.NoSuchProcess:
        return psutil.STATUS_DEAD


def _alive(process: psutil.Process) -> bool:
    return _state_of(process) not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
