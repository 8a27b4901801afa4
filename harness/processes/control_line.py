"""The messages between a run and one of its processes: JSON, one message a line, over a socket pair.

A process *reports*; the run *commands*. Every field of a message may be left out: it then says nothing of that.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Claims = Mapping[str, tuple[int, int]]
"""By partition (`topic/number`): the first input in hand, and the offset to commit."""


@dataclass(frozen=True)
class Command:
    """What the run wants of a process."""

    arm: str | None = None  # wait at this step when you come to it
    asked: str | None = None  # with `arm`: only in a transaction that is to end so, commit or abort
    disarm: bool = False  # wait nowhere
    go: bool = False  # go on from the step at which you wait
    replaced: bool = False  # another process is in your place: end after what you have in hand
    stop: bool = False  # end in order

    def line(self) -> bytes:
        """As it is sent."""
        return _line({name: value for name, value in vars(self).items() if value})

    @classmethod
    def parse(cls, line: bytes) -> "Command":
        """The inverse; raises ValueError or TypeError where it is no command."""
        return cls(**json.loads(line))


@dataclass(frozen=True)
class Report:
    """What a process tells the run."""

    ready: bool = False
    at: str | None = None  # the step at which it waits
    claims: Claims | None = None  # with `at`: the inputs that it has in hand
    counts: Mapping[str, int] | None = None  # transactions and inputs so far
    fed: int | None = None  # inputs that were acknowledged to a feeder
    given: int | None = None  # records that a reader was given so far
    reached: int | None = None  # partitions of which a final reader came to the end
    unread: int | None = None  # partitions that a worker is still to read to their ends before it may end
    waits: str | None = None  # the call of its client that has not come back for too long,
    since_ns: int | None = None  # and since when of the run; 0: it has come back

    def line(self) -> bytes:
        """As it is sent."""
        return _line({name: value for name, value in vars(self).items() if value or value == 0})

    @classmethod
    def parse(cls, line: bytes) -> "Report":
        """The inverse; raises ValueError or TypeError where it is no report."""
        return cls(**json.loads(line))


@dataclass
class Heard:
    """What a process has told so far, the last of each."""

    ready: bool = False
    at: str | None = None
    claims: Claims = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    fed: int = 0
    given: int = 0
    reached: int = 0
    unread: int = 0
    waits: str = ""
    since_ns: int = 0

    def __str__(self) -> str:
        """Return what is known of the process, for a message: "it is ready, waits at no step"."""
        step = f"waits at the step {self.at}" if self.at else "waits at no step"
        parts = ["is ready" if self.ready else "is not ready yet", step]
        parts += [f"has counted {count} {name}" for name, count in self.counts.items() if count]
        parts += [f"has sent {self.fed} inputs"] if self.fed else []
        parts += [f"was given {self.given} records"] if self.given else []
        parts += [f"has {self.unread} partitions left to read"] if self.unread else []
        parts += [f"waits for its client's {self.waits}"] if self.waits and self.since_ns else []
        return f"it {', '.join(parts)}"

    def take(self, report: Report) -> None:
        """One more report."""
        for name, value in vars(report).items():
            if value is not None and value is not False:
                setattr(self, name, value)


def _line(body: Mapping[str, Any]) -> bytes:
    return json.dumps({name: value for name, value in body.items() if value is not False}).encode() + b"\n"
