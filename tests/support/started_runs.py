"""Runs as processes, for tests that end them."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from harness.common.waiting import wait_for
from harness.processes.guardian import SCRATCH_PREFIX
from harness.processes.marks import VARIABLE

COMMAND = (sys.executable, "-P", "-m", "fencepost")


class Started:
    """A run in a session of its own, and what it has said so far."""

    def __init__(self, process: "subprocess.Popen[str]", log: Path) -> None:
        self.process = process
        self._log = log

    def said(self) -> str:
        return self._log.read_text()

    def await_said(self, enough: Callable[[str], bool], what: str, timeout_s: float = 180) -> None:
        def seen() -> bool:
            if self.process.poll() is not None:
                raise AssertionError(f"the run ended before {what}:\n{self.said()}")
            return enough(self.said())

        wait_for(seen, what, timeout_s, last_seen=lambda: self.said()[-500:])

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.process.pid, number)

    def left(self) -> list[str]:
        """The processes and folders that are still there."""
        mine = f"{self.process.pid}."
        found = []
        for process in psutil.process_iter(["name"]):
            try:
                if process.environ().get(VARIABLE, "").startswith(mine):
                    found.append(f"{process.pid} {process.name()}")
            except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
                continue
        folders = Path(tempfile.gettempdir()).glob(f"{SCRATCH_PREFIX}{mine}*")
        return found + [str(folder) for folder in folders]

    def await_nothing_left(self) -> None:
        wait_for(lambda: not self.left(), "nothing to be left of the run", 30, last_seen=self.left)


@contextmanager
def started(log: Path, *options: str, command: str = "run") -> Iterator[Started]:
    """Start a run, or another command; it is ended with the test if it has not ended by then."""
    with (
        log.open("w") as output,
        subprocess.Popen(
            [*COMMAND, command, *options], stdout=output, stderr=output, text=True, start_new_session=True
        ) as process,
    ):
        run = Started(process, log)
        try:
            yield run
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
            run.await_nothing_left()


def working(said: str) -> bool:
    """Whether some transactions have been committed."""
    return any("(" in line and "(0 ok" not in line and " ok," in line for line in said.splitlines())
