"""Runs of the command `fencepost` as processes, for tests that interrupt them."""

import json
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
from harness.processes.guardian import SCRATCH_PREFIX, VARIABLE

COMMAND = (sys.executable, "-P", "-m", "fencepost")


class StartedRun:
    """A run in a process session that it does not share with the test, and its output so far."""

    def __init__(self, process: "subprocess.Popen[str]", log: Path) -> None:
        self.process = process
        self._log = log

    def output(self) -> str:
        return self._log.read_text()

    def await_output(
        self, condition: Callable[[str], bool], description: str, timeout_s: float = 180
    ) -> None:
        """Wait until `condition` holds for the output. Fail if the run ends before that."""

        def is_met() -> bool:
            if self.process.poll() is not None:
                raise AssertionError(f"the run ended before {description}:\n{self.output()}")
            return condition(self.output())

        wait_for(is_met, description, timeout_s, last_seen=lambda: self.output()[-500:])

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.process.pid, number)

    def children(self) -> list[psutil.Process]:
        """The processes that have the mark of the run."""
        prefix, processes = f"{self.process.pid}.", []
        for process in psutil.process_iter(["name", "cmdline"]):
            try:
                if process.environ().get(VARIABLE, "").startswith(prefix):
                    processes.append(process)
            except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
                continue
        return processes

    def leftovers(self) -> list[str]:
        """The processes and scratch folders of the run that still exist."""
        processes = [f"{process.pid} {process.info['name']}" for process in self.children()]
        folders = Path(tempfile.gettempdir()).glob(f"{SCRATCH_PREFIX}{self.process.pid}.*")
        return processes + [str(folder) for folder in folders]

    def await_no_leftovers(self) -> None:
        wait_for(lambda: not self.leftovers(), "nothing to be left of the run", 30, last_seen=self.leftovers)


def kill_guardian(run: int) -> None:
    """Kill the guardian of the run with this process id. The guardian itself has no mark."""
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or ()
        if "harness.processes.guardian" in words and words[-1].startswith(f"{run}."):
            process.kill()


def protocol_events(store: Path, event: str) -> list[str]:
    """What rules have done in the only run of a store, in words: those entries of the protocol proxy's journal."""
    lines = [
        line for journal in store.glob("*/*/protocol.jsonl") for line in journal.read_text().splitlines()
    ]
    entries = (json.loads(line).get("event") for line in lines if line.startswith('{"event"'))
    return [entry["words"] for entry in entries if entry["event"] == event]


@contextmanager
def start_run(log: Path, *options: str, command: str = "run") -> Iterator[StartedRun]:
    """Start a run, or another command of `fencepost`. Leaving kills it if it is still running."""
    with (
        log.open("w") as output,
        subprocess.Popen(
            [*COMMAND, command, *options], stdout=output, stderr=output, text=True, start_new_session=True
        ) as process,
    ):
        run = StartedRun(process, log)
        try:
            yield run
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
            run.await_no_leftovers()


def has_commits(output: str) -> bool:
    """Whether a status line of the run counts committed transactions."""
    return any("(" in line and "(0 ok" not in line and " ok," in line for line in output.splitlines())
