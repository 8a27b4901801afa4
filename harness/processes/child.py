"""A child process with the verbs that faults need: kill, stop, pause, resume, each with its proof."""

import os
import signal
import subprocess
from pathlib import Path

import psutil

from harness.errors import WaitTimeout
from harness.waiting import wait_for

KILL_TIMEOUT_S = 10.0
PAUSE_TIMEOUT_S = 5.0


class Child:
    """One process. Verbs return when they have taken effect; signals go to it alone."""

    def __init__(self, process: "subprocess.Popen[bytes]", name: str, log_file: Path | None) -> None:
        self._process = process
        self.name = name
        self.log_file = log_file

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def poll(self) -> int | None:
        """None while the process exists; then its exit status, negative if a signal ended it."""
        return self._process.poll()

    def wait(self, timeout_s: float) -> int:
        """Wait for its own end, and give the exit status; raises `WaitTimeout`."""
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise WaitTimeout(f"the end of {self.name}", timeout_s, self._state()) from None

    @property
    def paused(self) -> bool:
        """Whether the kernel says that it is stopped by a signal."""
        return self.poll() is None and self._state() == psutil.STATUS_STOPPED

    @property
    def running(self) -> bool:
        """Whether it exists and is not stopped by a signal."""
        return self.poll() is None and self._state() != psutil.STATUS_STOPPED

    def kill(self) -> str:
        """SIGKILL, also to a stopped process; reaps it. Returns how it ended.

        `process 4711 ended by SIGKILL` is the proof that it was this that ended it.
        """
        self.signal(signal.SIGKILL)
        self.wait(KILL_TIMEOUT_S)
        return self.ending()

    def stop(self, timeout_s: float) -> str:
        """SIGTERM, and wait for its end; returns how it ended. Raises `WaitTimeout`."""
        self.signal(signal.SIGTERM)
        self.signal(signal.SIGCONT)
        self.wait(timeout_s)
        return self.ending()

    def pause(self) -> str:
        """SIGSTOP; returns once every thread of it is stopped. Raises `WaitTimeout`."""
        self.signal(signal.SIGSTOP)
        wait_for(
            self._all_stopped,
            f"{self.name} to be stopped by SIGSTOP",
            PAUSE_TIMEOUT_S,
            every_s=0.002,
            last_seen=lambda: self._state() if self.poll() is None else self.ending(),
        )
        return f"process {self.pid} stopped by SIGSTOP"

    def resume(self) -> str:
        """SIGCONT; does nothing to a process that runs or has ended."""
        if not self.paused:
            return f"process {self.pid} was not stopped"
        self.signal(signal.SIGCONT)
        wait_for(lambda: not self.paused, f"{self.name} to run again", PAUSE_TIMEOUT_S, every_s=0.002)
        return f"process {self.pid} continued by SIGCONT"

    def signal(self, number: signal.Signals) -> None:
        """Send a signal; does nothing to a process that has ended."""
        self._process.send_signal(number)

    def ending(self) -> str:
        """How it ended: `process 4711 ended by SIGKILL`, `process 4711 ended with status 1`."""
        code = self.poll()
        if code is None:
            return f"process {self.pid} has not ended"
        if code < 0:
            return f"process {self.pid} ended by {signal.Signals(-code).name}"
        return f"process {self.pid} ended with status {code}"

    def _state(self) -> str:
        try:
            return psutil.Process(self.pid).status()
        except psutil.NoSuchProcess:
            return psutil.STATUS_DEAD

    def _all_stopped(self) -> bool:
        if self.poll() is not None:
            return False
        if not hasattr(os, "waitid"):
            return self.paused
        # The parent is told of a stop once the last thread has stopped; the main thread may be earlier.
        what = os.WSTOPPED | os.WNOHANG | os.WNOWAIT
        return self.paused and os.waitid(os.P_PID, self.pid, what) is not None
