"""The program of the processes of a stage: Fencepost's own loop, or the command of a custom pipeline."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from harness.processes.encoding import ProcessMessage, encode
from harness.processes.specs import ProcessSpec


@dataclass(frozen=True)
class ProgramRules:
    """How a run detects that a program without a control line is ready, and how it stops the program."""

    ready: str | None = (
        None  # a regular expression that matches a line of output; None: ready when its group has enough members
    )
    ready_within_s: float = 60.0
    stop_signal: str = "SIGTERM"
    stop_within_s: float = 30.0


@dataclass(frozen=True)
class CommandLine:
    """How to start a process."""

    argv: Sequence[str]
    pass_fds: tuple[int, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)  # added to the environment of the run
    cwd: Path | None = None
    rules: ProgramRules | None = None  # None: the program has a control line


@dataclass(frozen=True)
class ProgressCommand:
    """How to ask which inputs a stage without a consumer group has processed: its `[stage.progress]`."""

    words: str  # names it in messages: "`python3 progress.py`"
    command_line: Callable[[str], CommandLine]  # from the bootstrap servers
    within_s: float = 10.0  # how long each call may take


class Program(Protocol):
    """The program of the processes of a stage."""

    def command_line(self, spec: ProcessSpec) -> CommandLine:
        """Return how to start a process of this program for a task."""
        ...


@dataclass(frozen=True)
class PythonProgram:
    """A module that runs with two specs: one for the process, and one shared by all processes of the program."""

    module: str  # set by `fencepost`
    common: ProcessMessage
    env: Mapping[str, str] = field(default_factory=dict)  # for example the path of another client version

    def command_line(self, spec: ProcessSpec) -> CommandLine:
        """Return `python -P -m MODULE PROCESS_SPEC COMMON_SPEC`. The process inherits its end of the control line."""
        argv = [sys.executable, "-P", "-m", self.module, encode(spec).decode(), encode(self.common).decode()]
        return CommandLine(argv, pass_fds=() if spec.control_fd is None else (spec.control_fd,), env=self.env)
