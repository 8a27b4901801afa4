"""One process of a run. Fencepost's own processes have a control line and a journal; custom pipelines have neither."""

import re
import socket
import threading
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from os import SEEK_END
from pathlib import Path
from signal import Signals

from harness.model.vocabulary import Role
from harness.processes.child import Child
from harness.processes.messages import Command, ProcessStatus
from harness.processes.preload import Preload
from harness.processes.specs import ProgramRules, WorkerSpec

STOP_TIMEOUT_S = 75.0
"""Longer than the client's own time-outs, so that a process that waits for a broker can finish."""
LAST_REPORT_TIMEOUT_S = 5.0
LAST_BYTES = 4_096
LAST_LINES = 15
ERROR = re.compile(r"\b\w*(Error|Exception|FATAL)\b")
"""An error is not always the last line. For example, Node prints its version below the error."""


@dataclass
class RunProcess:
    """One process of the run."""

    journal: str
    role: Role
    endpoint: str
    child: Child
    channel: socket.socket | None  # None: an instance of a custom pipeline, which has no control line
    worker_spec: WorkerSpec | None = None  # None: it is not a worker
    status: ProcessStatus = field(default_factory=ProcessStatus)
    listener: threading.Thread | None = None
    expected_to_end: bool = False
    held_by_fault: bool = False  # a fault has armed a step of this worker, or holds the worker at a step
    rules: ProgramRules | None = None  # of an instance of a custom pipeline
    started_ns: int = field(default_factory=time.monotonic_ns)
    preload: Preload | None = None  # changes its clock; None: no fault of the run needs that

    @property
    def stage(self) -> str | None:
        """The stage of a worker; None: it is not a worker."""
        return self.worker_spec.stage if self.worker_spec else None

    @property
    def worker(self) -> str | None:
        """The name of a worker, which all its incarnations share; None: it is not a worker."""
        return self.worker_spec.worker if self.worker_spec else None

    @property
    def group(self) -> str | None:
        """The consumer group of a worker's stage; None: it has none."""
        return self.worker_spec.group if self.worker_spec else None

    def send(self, command: Command) -> None:
        """Send a command. Do nothing if the process has ended or has no control line."""
        if self.channel is not None:
            with suppress(OSError):
                self.channel.sendall(command.line())
        if command.go:
            self.held_by_fault = False

    def ask_to_stop(self) -> None:
        """Ask the process to end: by a command, or by the signal of a custom pipeline."""
        self.child.resume()
        if self.rules is None:
            self.send(Command(stop=True, go=True))
        else:
            self.child.signal(Signals[self.rules.stop_signal])

    @property
    def alive(self) -> bool:
        """True if the process exists, paused or not, or if some of its reports are not read yet."""
        return self.child.poll() is None or (self.listener is not None and self.listener.is_alive())

    def await_listener(self) -> None:
        """Wait until all reports of the process are read. Give up after 5 s. Call it after the process has ended."""
        if self.listener is not None:
            self.listener.join(LAST_REPORT_TIMEOUT_S)

    @property
    def stop_within_s(self) -> float:
        """The time in seconds that the process has to end after `ask_to_stop`."""
        return STOP_TIMEOUT_S if self.rules is None else self.rules.stop_within_s

    @property
    def log_file(self) -> Path:
        """The file with the output of the process."""
        assert self.child.log_file is not None
        return self.child.log_file

    def last_output(self) -> str:
        """Return the last line of output that names an error, or else the last line."""
        self.child.await_log()
        last = self.log_file.with_name(self.log_file.name + ".last")  # where a `BoundedLog` continues
        with (last if last.exists() else self.log_file).open("rb") as file:
            file.seek(0, SEEK_END)
            file.seek(max(0, file.tell() - LAST_BYTES))
            lines = file.read().decode(errors="replace").strip().splitlines()
        errors = [line for line in lines[-LAST_LINES:] if ERROR.search(line)]
        return (errors or lines)[-1].strip() if lines else "it printed nothing"

    def has_printed(self, pattern: str) -> bool:
        """Return whether a line of the output matches a regular expression."""
        with self.log_file.open(errors="replace", encoding="utf-8") as lines:
            return any(re.search(pattern, line) for line in lines)


def describe_not_ready(
    process: RunProcess, group_members: Callable[[str], Collection[str] | None], workers: Sequence[RunProcess]
) -> str:
    """Return a message that says why a process is not ready."""
    if process.rules is None:
        return f"{process.journal} has not reported that it is ready"
    if process.rules.ready is not None:
        return f"{process.journal} has printed no line that matches {process.rules.ready!r}"
    group = group_members(process.group or "")
    if group is None:
        return f"{process.journal} is not ready, because its group {process.group} is not stable"
    expected = len(_instances_in_group(process, workers))
    return (
        f"{process.journal} is not ready, because its group {process.group} has "
        f"{len(group)} member{'s' * (len(group) != 1)}; {expected} {'is' if expected == 1 else 'are'} expected"
    )


def is_ready(
    process: RunProcess, group_members: Callable[[str], Collection[str] | None], workers: Sequence[RunProcess]
) -> bool:
    """Return whether an instance of a custom pipeline is ready.

    If `pipeline.toml` has the key `ready`, the instance is ready when a line of its output matches it. Otherwise it is
    ready when its group has at least as many members as it has live instances. Without a group, it is ready at once.
    """
    if process.rules is None:
        return False
    if process.rules.ready is not None:
        return process.has_printed(process.rules.ready)
    if process.group is None:
        return True
    group = group_members(process.group)
    return group is not None and len(group) >= len(_instances_in_group(process, workers))


def _instances_in_group(process: RunProcess, workers: Sequence[RunProcess]) -> list[RunProcess]:
    return [worker for worker in workers if worker.group == process.group]
