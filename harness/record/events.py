"""The events of a journal: what each kind of line says, for those who write them and for who reads them.

A field that has its default is left out of the line. A reader passes over fields that it does not know. Partitions
are named `topic/number`; times are nanoseconds since the run began.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal

from harness.model.vocabulary import Outcome
from harness.record.event_forms import FIELD_CHECKS, MOST, is_number, is_partition_name

Ack = tuple[int, int | None]
"""Partition and offset that a record was acknowledged with. Without an offset: it was written before, by a request
whose answer was lost, and the broker no longer knows where."""

REFUSED: Ack = (-1, None)
"""In the place of an acknowledgement: the client itself refused the record, and it was never sent."""

Rows = Mapping[str, Sequence[Sequence[Any]]]
"""By partition."""


class NotAnEvent(ValueError):
    """A line that is no event of a journal."""


@dataclass(frozen=True)
class Event:
    """What all events have in common: how they become a line."""

    fixed: ClassVar[Mapping[str, str]] = {}
    """What stands in every line of the kind."""

    def body(self) -> dict[str, Any]:
        """The fields of the line, without its number and time."""
        defaults = _DEFAULTS[type(self)]
        told = {name: value for name, value in vars(self).items() if value is not defaults[name]}
        return {**self.fixed, **told}


@dataclass(frozen=True)
class JournalBegan(Event):
    """The first line: whose journal it is."""

    fixed: ClassVar = {"type": "begin"}
    journal: str
    pid: int | None = None  # the journal writes it
    role: str = "unknown"
    stage: str | None = None
    worker: str | None = None
    process: int | None = None
    bootstrap: str | None = None
    client: str | None = None  # that it runs, as the library itself says: librdkafka or java,
    client_version: str | None = None  # the version of its package (confluent-kafka, kafka-clients),
    library_version: str | None = None  # and that of librdkafka


@dataclass(frozen=True)
class JournalEnded(Event):
    """The last line: the process came to its end, after so many operations."""

    fixed: ClassVar = {"type": "end"}
    ops: int


@dataclass(frozen=True)
class Invoked(Event):
    """Something that may take effect is about to be done."""

    fixed: ClassVar = {"type": "invoke"}
    f: str  # txn, send, init, commit-offsets, or a fault
    process: int
    op: int
    asked: str | None = None  # of a transaction: commit or abort
    transactional_id: str | None = None
    sends: Sequence[
        Sequence[Any]
    ] = ()  # topic, output name, digest; then a partition and an offset for each input
    claims: Mapping[str, tuple[int, int]] | None = (
        None  # by partition, the first input and the offset to commit
    )
    txn: int | None = None  # of a commit outside a transaction: the operation whose inputs it is for
    # Of a transaction that polls as well, by micro-operation: where it sends the next of `sends`; null: it polls.
    micro: Sequence[str | None] = ()
    target: str | None = None  # of a fault
    parameters: Mapping[str, str | float] | None = None  # of a fault or a turn of the churn


@dataclass(frozen=True)
class EndInvoked(Event):
    """The commit or the abort of a transaction is about to be asked for, after these acknowledgements."""

    type: Literal["commit", "abort"]
    op: int
    acks: Sequence[Ack | None]  # by the record's place in the transaction


@dataclass(frozen=True)
class Completed(Event):
    """How an operation ended."""

    type: Outcome
    f: str
    process: int
    op: int
    acks: Sequence[Ack | None] | None = None  # where no `EndInvoked` has told them
    error: str | None = None
    fenced: bool = False
    surprise: bool = False  # the error is of a kind that nobody foresaw
    abort_error: str | None = None
    target: str | None = None  # of a fault: what it hit
    evidence: str | None = None  # of a fault: that it acted


@dataclass(frozen=True)
class Polled(Event):
    """Records were delivered. A read has no effect, so that it has no invocation."""

    fixed: ClassVar = {"type": "ok", "f": "poll"}
    process: int
    op: int
    call: int
    records: Rows | None = None  # offset and value of each
    txn: int | None = None  # the transaction in which it was done
    at: int | None = None  # and which of its micro-operations it was, from 0


@dataclass(frozen=True)
class Assigned(Event):
    """Partitions were gained, or were revoked or lost."""

    fixed: ClassVar = {"type": "assign"}
    process: int
    gained: bool
    partitions: Sequence[str]
    starts: Sequence[int | None] | None = None  # of each that was gained: the position it is read from


@dataclass
class ReadEnd:
    """How far a reader came in a partition; the columns of the table `ends`."""

    first: int = 0
    next: int = 0
    read: int = 0
    sentinel: int | None = None
    expected: int | None = None


@dataclass(frozen=True)
class EndsRead(Event):
    """How far a reader came in each of its partitions."""

    fixed: ClassVar = {"type": "ends"}
    isolation: str
    ends: Mapping[str, ReadEnd]
    errors: int = 0  # that its consumer met


@dataclass(frozen=True)
class PartWritten(Event):
    """A part file is complete: see `harness.record.parts`."""

    fixed: ClassVar = {"type": "part"}
    table: str
    file: str
    rows: int
    crc: int


@dataclass(frozen=True)
class ErrorNoted(Event):
    """An error that the process survived; for people."""

    fixed: ClassVar = {"type": "note"}
    op: int | None = None
    error: str | None = None
    retried: str | None = None  # the error after which it asked again
    errors: int | None = None  # so far
    waits: str | None = None  # the call of its client that has not come back for too long,
    since: int | None = None  # and when it began


_KINDS: Sequence[type[Event]] = (
    *(JournalBegan, JournalEnded, Invoked, EndInvoked, Completed, Polled),
    *(Assigned, EndsRead, PartWritten, ErrorNoted),
)
_DEFAULTS = {kind: {one.name: one.default for one in fields(kind)} for kind in _KINDS}
_BY_TYPE: Mapping[str, type[Event]] = {
    **{kind.fixed["type"]: kind for kind in _KINDS if kind.fixed},
    **dict.fromkeys(("commit", "abort"), EndInvoked),
    **dict.fromkeys(Outcome, Completed),
}


KINDS = ("txn", "send", "init", "commit-offsets")
"""What the processes of a pipeline do, polls aside."""


def parse(line: Mapping[str, Any]) -> Event:
    """The event of a line. Raises `NotAnEvent`."""
    polled = line.get("f") == "poll" and line.get("type") == Outcome.OK
    kind = Polled if polled else _BY_TYPE.get(str(line.get("type")))
    if kind is None:
        raise NotAnEvent(f"no event of a journal is of type {line.get('type')!r}")
    told = {name: line[name] for name in _DEFAULTS[kind] if name in line}
    for name, value in told.items():
        fits = FIELD_CHECKS.get(name)
        if not (_DEFAULTS[kind][name] is None if value is None else fits is None or fits(value)):
            raise NotAnEvent(f"{name} of an event cannot be {str(value)[:60]!r}")
    try:
        if kind is Completed:
            told["type"] = Outcome(told["type"])
        elif kind is EndsRead:
            told["ends"] = {place: _read_end(place, end) for place, end in told["ends"].items()}
        return kind(**told)
    except (TypeError, LookupError, AttributeError) as error:
        raise NotAnEvent(f"an event of type {line.get('type')!r} is not whole: {error}") from error


def _read_end(place: str, end: Mapping[str, Any]) -> ReadEnd:
    if not is_partition_name(place) or not all(
        value is None or is_number(value, -MOST) for value in end.values()
    ):
        raise NotAnEvent(f"nobody read {place!r} as far as {end!r}")
    return ReadEnd(**end)
