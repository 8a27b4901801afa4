"""What runs in the processes of a stage: our own loop, the same on another client, or any command."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from harness.history import Role


@dataclass(frozen=True)
class Seat:
    """What a process is given when it is started."""

    role: Role
    journal: str
    path: Path  # of its journal
    bootstrap: str
    zero_ns: int  # the run's zero on the monotonic clock
    channel: int  # the file descriptor of its end of the control line
    stage: str | None = None
    worker: str | None = None
    group: str | None = None  # of the stage
    transactional_id: str | None = None  # of the worker
    process: int = 0
    more: Mapping[str, Any] = field(default_factory=dict)  # what this role alone is told


@dataclass(frozen=True)
class Manners:
    """How one gets on with a program that is not ours: it has no control line, and says nothing of what it does."""

    ready: str | None = (
        None  # a line of its output that says so (a regular expression); None: its group has it
    )
    ready_within_s: float = 60.0
    stop_signal: str = "SIGTERM"
    stop_within_s: float = 30.0


@dataclass(frozen=True)
class Launch:
    """How a process is started."""

    argv: Sequence[str]
    pass_fds: tuple[int, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)  # on top of the run's own environment
    cwd: Path | None = None
    manners: Manners | None = None  # None: it speaks on the control line


class Program(Protocol):
    """What runs in the processes of a stage."""

    def launch(self, seat: Seat) -> Launch:
        """How it is started in that seat."""
        ...
