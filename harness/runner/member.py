"""One process of a run: ours, with a control line and a journal, or a program of a user's, which has neither."""

import re
import socket
import threading
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from os import SEEK_END
from pathlib import Path
from signal import Signals

from harness.model.vocabulary import Role
from harness.processes.child import Child
from harness.processes.control_line import Command, ProcessStatus
from harness.processes.program import ProgramRules
from harness.processes.specs import WorkerSpec

STOP_TIMEOUT_S = 75.0
"""Longer than a client's own patience: whoever is still waiting for a broker may finish."""
LAST_REPORT_TIMEOUT_S = 5.0
LAST_BYTES = 4_096
LAST_LINES = 15
ERROR = re.compile(r"\b\w*(Error|Exception|FATAL)\b")
"""Node, for one, ends with its version below the error."""


@dataclass
class RunProcess:
    """One process of the run."""

    journal: str
    role: Role
    endpoint: str
    child: Child
    channel: socket.socket | None  # None: it is not ours, and is told nothing
    task: WorkerSpec | None = None  # of a worker
    status: ProcessStatus = field(default_factory=ProcessStatus)
    listener: threading.Thread | None = None
    expected_to_end: bool = False
    reserved: bool = False  # a fault waits for it to come to a step, or has it there
    rules: ProgramRules | None = None  # of a program that is not ours

    @property
    def stage(self) -> str | None:
        """The stage of a worker."""
        return self.task.stage if self.task else None

    @property
    def worker(self) -> str | None:
        """The name of a worker, which its replacement has too."""
        return self.task.worker if self.task else None

    @property
    def group(self) -> str | None:
        """The consumer group of a worker's stage."""
        return self.task.group if self.task else None

    def send(self, command: Command) -> None:
        """Send a command; a process that has ended does not get it, and that is no error."""
        if self.channel is not None:
            with suppress(OSError):
                self.channel.sendall(command.line())
        if command.go:
            self.reserved = False

    def leave(self) -> None:
        """Ask it to end, in the way that it understands."""
        self.child.resume()
        if self.rules is None:
            self.send(Command(stop=True, go=True))
        else:
            self.child.signal(Signals[self.rules.stop_signal])

    @property
    def alive(self) -> bool:
        """Whether its process exists, stopped or not, or has said something that was not yet heard."""
        return self.child.poll() is None or (self.listener is not None and self.listener.is_alive())

    def await_listener(self) -> None:
        """Of one that has ended: wait until all that it said was heard."""
        if self.listener is not None:
            self.listener.join(LAST_REPORT_TIMEOUT_S)

    @property
    def stop_within_s(self) -> float:
        """How long it may take to end once it was asked."""
        return STOP_TIMEOUT_S if self.rules is None else self.rules.stop_within_s

    @property
    def log_file(self) -> Path:
        """What it prints."""
        assert self.child.log_file is not None
        return self.child.log_file

    def last_output(self) -> str:
        """The last line that it printed; of what it printed last, the line that names an error, if there is one."""
        self.child.await_log()
        last = self.log_file.with_name(self.log_file.name + ".last")  # of a log that is bounded
        with (last if last.exists() else self.log_file).open("rb") as file:
            file.seek(0, SEEK_END)
            file.seek(max(0, file.tell() - LAST_BYTES))
            lines = file.read().decode(errors="replace").strip().splitlines()
        errors = [line for line in lines[-LAST_LINES:] if ERROR.search(line)]
        return (errors or lines)[-1].strip() if lines else "it said nothing"

    def has_printed(self, pattern: str) -> bool:
        """Whether a line of its log matches."""
        with self.log_file.open(errors="replace") as lines:
            return any(re.search(pattern, line) for line in lines)


def describe_not_ready(member: RunProcess, members_of: Callable[[str], Collection[str] | None]) -> str:
    """In words: one that is not ready, and what it was to be known by."""
    if member.rules is None:
        return f"{member.journal} has said nothing"
    if member.rules.ready is not None:
        return f"{member.journal} has printed no line that matches {member.rules.ready!r}"
    there = members_of(member.group or "")
    words = "is not stable" if there is None else f"has {len(there)} member{'s' * (len(there) != 1)}"
    return f"{member.journal} is not ready, for its group {member.group} {words}"


def is_ready(
    member: RunProcess, members_of: Callable[[str], Collection[str] | None], workers: Sequence[RunProcess]
) -> bool:
    """Whether a program that is not ours is seen to be ready: by what it prints, or because its group has it."""
    if member.rules is None:
        return False
    if member.rules.ready is not None:
        return member.has_printed(member.rules.ready)
    if member.group is None:
        return True
    there = members_of(member.group)
    wanted = [one for one in workers if one.group == member.group]
    return there is not None and len(there) >= len(wanted)
