"""The messages between processes: their encoding, and those between a run and one of its processes.

Both processes run the same release, so a difference is a bug in Fencepost: a missing or unknown field, or a value of a
wrong type, is a `DecodeError`. A field may be left out only if it has a default. The messages of a union have a tag,
for example `class FeederSpec(ProcessMessage, frozen=True, tag_field="kind", tag="feeder")`.

A process sends `Report`s, and the run sends `Command`s. A field that has its default carries no information.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, TypeVar

import msgspec
from msgspec import Struct, structs

from harness.model.vocabulary import Outcome

T = TypeVar("T")
Claims = Mapping[str, tuple[int, int]]
"""By partition (`topic/number`): the offset of the first input that is being processed, and the offset to commit."""


class ProcessMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The base class of messages, and of the parts of messages."""


class DecodeError(ValueError):
    """A text is not the JSON of the expected message. The error of msgspec names the field."""


def encode(message: msgspec.Struct) -> bytes:
    """Encode a message as one line of JSON, without the line break."""
    return msgspec.json.encode(message, enc_hook=_text)


def decode(kind: type[T], text: str | bytes) -> T:
    """Decode a message of type `kind`. Raises `DecodeError`."""
    try:
        return msgspec.json.decode(text, type=kind, dec_hook=_path)
    except msgspec.MsgspecError as error:
        raise DecodeError(f"not a {kind.__name__}: {error}") from error


def _text(value: object) -> str:
    if isinstance(value, Path):
        return str(value)
    raise NotImplementedError(f"{value!r} cannot be encoded")


def _path(kind: type, value: Any) -> object:
    if kind is not Path:
        raise NotImplementedError(f"{kind!r} cannot be decoded")
    if not isinstance(value, str):
        raise TypeError(f"Expected `str`, got {value!r}")
    return Path(value)


class CaseOrder(ProcessMessage, frozen=True):
    """The order to carry out a program of a few transactions on the inputs of one partition.

    A step is the number of a transaction, from 1, and what it does next: `2.end`. The worker waits once at each of
    `stops` until the run says go, and when the program is over.
    """

    number: int  # of the case, and of its partition
    program: str  # a letter for each part, see `workloads.loop.programs`
    stops: tuple[str, ...] = ()
    begun: int = 0  # transactions that a worker has begun before this one took over
    killed: bool = False  # the run kills the worker after the last part, and another one takes over


class CaseEnd(ProcessMessage, frozen=True):
    """How a worker has ended a case, or its share of it."""

    number: int
    begun: int  # transactions so far
    steps: tuple[tuple[int, str], ...]  # the steps that it came to, each with the time on the monotonic clock
    errors: tuple[str, ...] = ()  # errors after which it needed a new producer
    left: int = 0  # inputs that it could not process
    last_error: str = ""  # of a transaction


class Command(ProcessMessage, frozen=True):
    """A command of the run to a process."""

    arm: str | None = None  # stop at this step when the loop comes to it
    intended_end: str | None = (
        None  # with `arm`: stop only in a transaction that is meant to end so: commit or abort
    )
    disarm: bool = False  # do not stop at a step
    go: bool = False  # go on from the step where the process is stopped, or begin to work
    replaced: bool = False  # another process has replaced this one: end after the current batch
    stop: bool = False  # end cleanly
    case: CaseOrder | None = None

    def line(self) -> bytes:
        """Encode the message as a line."""
        return encode(self) + b"\n"

    @classmethod
    def parse(cls, line: bytes) -> Self:
        """Decode a line. Raises `DecodeError`."""
        return decode(cls, line)


class Counts(Struct, forbid_unknown_fields=True):
    """The numbers of transactions and inputs of a worker so far."""

    inputs: int = 0  # of committed transactions
    committed: int = 0
    aborted: int = 0  # on purpose
    failed: int = 0
    info: int = 0  # transactions whose outcome is not known
    fenced: int = 0  # how often the worker was fenced

    def end(self, outcome: Outcome, intended_end: str, inputs: int) -> None:
        """Count a batch with this outcome. `intended_end` is how its transaction was meant to end: commit or abort."""
        if outcome is Outcome.OK:
            self.committed += 1
            self.inputs += inputs
        elif outcome is Outcome.FAIL:
            self.aborted += intended_end == "abort"
            self.failed += intended_end != "abort"
        else:
            self.info += 1

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(*(a + b for a, b in zip(structs.astuple(self), structs.astuple(other), strict=True)))


class Report(ProcessMessage, frozen=True):
    """A report of a process to the run."""

    ready: bool = False
    step: str | None = None  # the step where the process is stopped
    claims: Claims | None = None  # with `step`: the inputs that it is processing
    counts: Counts | None = None
    inputs_acked: int | None = None  # of a feeder: inputs that were acknowledged
    records_read: int | None = None  # of a reader: records read so far
    reached: int | None = None  # of a final reader: partitions read to the end
    unread: int | None = None  # of a worker: partitions that it must still read to the end before it may end
    slow_call: str | None = None  # the client call that takes too long
    # When that call began, in nanoseconds since the start of the run. 0: it has returned.
    slow_call_since_ns: int | None = None
    case: CaseEnd | None = None

    def line(self) -> bytes:
        """Encode the message as a line."""
        return encode(self) + b"\n"

    @classmethod
    def parse(cls, line: bytes) -> Self:
        """Decode a line. Raises `DecodeError`."""
        return decode(cls, line)


@dataclass
class ProcessStatus:
    """The latest value of each field in the reports of a process."""

    ready: bool = False
    step: str | None = None
    claims: Claims = field(default_factory=dict)
    counts: Counts = field(default_factory=Counts)
    inputs_acked: int = 0
    records_read: int = 0
    reached: int = 0
    unread: int = 0
    slow_call: str = ""
    slow_call_since_ns: int = 0
    case: CaseEnd | None = None

    def __str__(self) -> str:
        """Return a description for messages, such as "it is ready, is stopped at no step"."""
        step_words = f"is stopped at the step {self.step}" if self.step else "is stopped at no step"
        parts = ["is ready" if self.ready else "is not ready yet", step_words]
        parts += [
            f"has counted {count} {name}" for name, count in structs.asdict(self.counts).items() if count
        ]
        parts += [f"has sent {self.inputs_acked} inputs"] if self.inputs_acked else []
        parts += [f"has read {self.records_read} records"] if self.records_read else []
        parts += [f"has {self.unread} partitions left to read"] if self.unread else []
        parts += (
            [f"waits in {self.slow_call} of its client"] if self.slow_call and self.slow_call_since_ns else []
        )
        return f"it {', '.join(parts)}"

    def update(self, report: Report) -> None:
        """Copy the fields of a report that differ from their defaults."""
        for field_ in structs.fields(report):
            value = getattr(report, field_.name)
            if value is not field_.default:
                setattr(self, field_.name, value)
