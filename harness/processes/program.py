"""The programs that run in the processes of a stage: our own loop, the same on another client, or any command."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from harness.processes.specs import ProcessSpec


@dataclass(frozen=True)
class ProgramRules:
    """How a run deals with a program that has no control line: how it sees that it is ready, and how it ends it."""

    ready: str | None = (
        None  # a regular expression of a line that it prints; None: it is ready when its group has it
    )
    ready_within_s: float = 60.0
    stop_signal: str = "SIGTERM"
    stop_within_s: float = 30.0


@dataclass(frozen=True)
class CommandLine:
    """How a process is started."""

    argv: Sequence[str]
    pass_fds: tuple[int, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)  # on top of the run's own environment
    cwd: Path | None = None
    rules: ProgramRules | None = None  # None: it has a control line


class Program(Protocol):
    """What runs in the processes of a stage."""

    def command_line(self, spec: ProcessSpec) -> CommandLine:
        """Return how a process of this program is started for a task."""
        ...
