"""A child process with the verbs that faults need: kill, stop, pause, resume, each with its proof.

A child may be a shell, or a launcher, and the work may be done by a child of its own. So signals go to the
process group that it leads: what were struck otherwise would be the launcher alone.
"""

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import psutil

from harness.common.errors import WaitTimeout
from harness.common.waiting import wait_for
from harness.processes.bounded_log import BoundedLog

KILL_TIMEOUT_S = 10.0
PAUSE_TIMEOUT_S = 5.0
LOG_TIMEOUT_S = 1.0
STILL = (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)


class Child:
    """One process, and the group that it leads. Verbs return when they have taken effect on all of them."""

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
        self._bounded = bounded  # through which it prints into that file

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

    def await_log(self) -> None:
        """Once it has ended: wait until all that it printed is in its log, unless what it has started prints on."""
        if self._bounded is not None and self.poll() is not None:
            self._bounded.wait(LOG_TIMEOUT_S)

    @property
    def paused(self) -> bool:
        """Whether the kernel says that it is stopped by a signal."""
        return self.poll() is None and (self._state() == psutil.STATUS_STOPPED or self._waits_for_stopped())

    @property
    def running(self) -> bool:
        """Whether it exists and is not stopped by a signal."""
        return self.poll() is None and self._state() != psutil.STATUS_STOPPED

    def kill(self) -> str:
        """SIGKILL, also to a stopped process; reaps it. Returns how it ended.

        `process 4711 ended by SIGKILL` is the proof that it was this that ended it.
        """
        others = self._others()
        self.signal(signal.SIGKILL)
        self.wait(KILL_TIMEOUT_S)
        wait_for(
            lambda: not any(map(_alive, others)),
            f"the end of what {self.name} had started",
            KILL_TIMEOUT_S,
            every_s=0.002,
            last_seen=lambda: [other.pid for other in others if _alive(other)],
        )
        return self.ending()

    def stop(self, timeout_s: float) -> str:
        """SIGTERM, and wait for its end; returns how it ended. Raises `WaitTimeout`."""
        self.signal(signal.SIGTERM)
        self.signal(signal.SIGCONT)
        self.wait(timeout_s)
        return self.ending()

    def pause(self) -> str:
        """SIGSTOP; returns once every thread of it, and all of its group, is stopped.

        Raises `WaitTimeout`: at once, if it has ended.
        """
        self.signal(signal.SIGSTOP)
        awaited = f"{self.name} to be stopped by SIGSTOP"

        def stopped() -> bool:
            if self.poll() is not None:
                raise WaitTimeout(awaited, 0, self.ending())
            return self._all_stopped()

        wait_for(stopped, awaited, PAUSE_TIMEOUT_S, every_s=0.002, last_seen=self._state)
        others = self._others()
        wait_for(
            lambda: all(_state_of(other) in STILL for other in others),
            f"what {self.name} has started to be stopped by SIGSTOP",
            PAUSE_TIMEOUT_S,
            every_s=0.002,
            last_seen=lambda: {other.pid: _state_of(other) for other in others},
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
        """Send a signal to the group; does nothing to a process that has ended."""
        if self.poll() is None:  # until it is reaped nobody else can have its number
            with suppress(ProcessLookupError):
                os.killpg(self.pid, number)

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
            return _state_of(psutil.Process(self.pid))
        except psutil.NoSuchProcess:
            return psutil.STATUS_DEAD

    def _waits_for_stopped(self) -> bool:
        """Whether it was stopped while it started a child: it cannot go on before that child does (vfork)."""
        return self._state() == psutil.STATUS_DISK_SLEEP and any(
            _state_of(other) == psutil.STATUS_STOPPED for other in self._others()
        )

    def _others(self) -> list[psutil.Process]:
        """Who else is in its group."""
        found = []
        with suppress(psutil.NoSuchProcess):
            for process in psutil.Process(self.pid).children(recursive=True):
                with suppress(ProcessLookupError):
                    if os.getpgid(process.pid) == self.pid:
                        found.append(process)
        return found

    def _all_stopped(self) -> bool:
        if not hasattr(os, "waitid") or self._waits_for_stopped():
            return self.paused
        # The parent is told of a stop once the last thread has stopped; the main thread may be earlier.
        what = os.WSTOPPED | os.WNOHANG | os.WNOWAIT
        return self.paused and os.waitid(os.P_PID, self.pid, what) is not None


def _state_of(process: psutil.Process) -> str:
    try:
        return process.status()
    except psutil.NoSuchProcess:
        return psutil.STATUS_DEAD


def _alive(process: psutil.Process) -> bool:
    return _state_of(process) not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
