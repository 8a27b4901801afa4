"""The messages between a run and one of its processes: JSON, one message a line, over a socket pair.

A process sends `Report`s, the run sends `Command`s. A field with its default says nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Self

from harness.model.vocabulary import Outcome
from harness.processes.encoding import decode, encode

Claims = Mapping[str, tuple[int, int]]
"""By partition (`topic/number`): the first input in hand, and the offset to commit."""


@dataclass(frozen=True)
class Command:
    """What the run wants of a process."""

    arm: str | None = None  # wait at this step when you come to it
    txn_end: str | None = None  # with `arm`: only in a transaction that is to end so, commit or abort
    disarm: bool = False  # wait nowhere
    go: bool = False  # go on from the step at which you wait
    replaced: bool = False  # another process is in your place: end after what you have in hand
    stop: bool = False  # end in order

    def line(self) -> bytes:
        """Encode it as it is sent."""
        return encode(self) + b"\n"

    @classmethod
    def parse(cls, line: bytes) -> Self:
        """Decode a line. Raises `DecodeError`."""
        return decode(cls, line)


@dataclass
class Counts:
    """Transactions and inputs of a worker so far."""

    inputs: int = 0  # of committed transactions
    committed: int = 0
    aborted: int = 0  # on purpose
    failed: int = 0
    info: int = 0  # transactions whose outcome is not known
    fenced: int = 0  # how often it was

    def end(self, outcome: Outcome, asked: str, inputs: int) -> None:
        """Count a batch with this outcome; `asked`: how its transaction was to end, commit or abort."""
        if outcome is Outcome.OK:
            self.committed += 1
            self.inputs += inputs
        elif outcome is Outcome.FAIL:
            self.aborted += asked == "abort"
            self.failed += asked != "abort"
        else:
            self.info += 1

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(*(a + b for a, b in zip(vars(self).values(), vars(other).values(), strict=True)))


@dataclass(frozen=True)
class Report:
    """What a process tells the run."""

    ready: bool = False
    at: str | None = None  # the step at which it waits
    claims: Claims | None = None  # with `at`: the inputs that it has in hand
    counts: Counts | None = None
    fed: int | None = None  # inputs that were acknowledged to a feeder
    given: int | None = None  # records that a reader was given so far
    reached: int | None = None  # partitions of which a final reader came to the end
    unread: int | None = None  # partitions that a worker is still to read to their ends before it may end
    waits: str | None = None  # the call of its client that has not come back for too long,
    since_ns: int | None = None  # and since when of the run; 0: it has come back

    def line(self) -> bytes:
        """Encode it as it is sent."""
        return encode(self) + b"\n"

    @classmethod
    def parse(cls, line: bytes) -> Self:
        """Decode a line. Raises `DecodeError`."""
        return decode(cls, line)


@dataclass
class ProcessStatus:
    """What a process has told so far, the last of each."""

    ready: bool = False
    at: str | None = None
    claims: Claims = field(default_factory=dict)
    counts: Counts = field(default_factory=Counts)
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
        parts += [f"has counted {count} {name}" for name, count in vars(self.counts).items() if count]
        parts += [f"has sent {self.fed} inputs"] if self.fed else []
        parts += [f"was given {self.given} records"] if self.given else []
        parts += [f"has {self.unread} partitions left to read"] if self.unread else []
        parts += [f"waits for its client's {self.waits}"] if self.waits and self.since_ns else []
        return f"it {', '.join(parts)}"

    def take(self, report: Report) -> None:
        """Note what a report says."""
        for one in fields(report):
            value = getattr(report, one.name)
            if value is not one.default:
                setattr(self, one.name, value)
