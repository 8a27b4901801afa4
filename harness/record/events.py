"""The events of a journal, one dataclass for each kind of line, and the checks of their fields.

A line leaves out a field that has its default. A reader ignores unknown fields. A partition is named `topic/number`.
Times are nanoseconds since the start of the run.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, ClassVar, Literal

from harness.model.vocabulary import Outcome

MOST = 1 << 62
"""Above every number in a journal."""
_MOST_SMALL = 1 << 31
_TEXT_OR_NONE = (str, type(None))
Ack = tuple[int, int | None]
"""The partition and offset of an acknowledged record.

The offset is None if the response to an earlier request was lost, and the broker no longer knows the offset that this
request got.
"""

REFUSED: Ack = (-1, None)
"""The entry for a record that the client refused, so that it was never sent."""

Rows = Mapping[str, Sequence[Sequence[Any]]]
"""By partition: its rows."""


def is_number(value: object, least: int = 0) -> bool:
    """Return whether the value is an integer that is at least `least` and below `MOST`."""
    return type(value) is int and least <= value < MOST


def _small(value: object) -> bool:
    return type(value) is int and 0 <= value < _MOST_SMALL


@lru_cache(maxsize=10_000)
def _names_partition(value: str) -> bool:
    topic, _, number = value.rpartition("/")
    return bool(topic) and number.isascii() and number.isdecimal() and len(number) < 10


def is_partition_name(value: object) -> bool:
    """Return whether the value is the name of a partition: `topic/number`."""
    return type(value) is str and _names_partition(value)


def _each(fits: Callable[[Any], bool]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, list) and all(map(fits, value))


def _by_partition(fits: Callable[[Any], bool]) -> Callable[[object], bool]:
    return lambda value: (
        isinstance(value, dict) and all(map(is_partition_name, value)) and all(map(fits, value.values()))
    )


# A long run has millions of these values. Loops with few calls check them faster.


def _sends(value: object) -> bool:
    """For each send: topic, output name, digest; then a partition and an offset for each input."""
    if type(value) is not list:
        return False
    for send in value:
        if type(send) is not list or len(send) < 3 or len(send) % 2 == 0:
            return False
        if type(send[0]) is not str or type(send[1]) not in _TEXT_OR_NONE or not is_number(send[2]):
            return False
        for at in range(3, len(send), 2):
            offset = send[at + 1]
            if not is_partition_name(send[at]) or type(offset) is not int or not 0 <= offset < MOST:
                return False
    return True


def _acks(value: object) -> bool:
    """For each send: its partition (-1: never sent) and its offset, which may be null; or null if no response came."""
    if type(value) is not list:
        return False
    for ack in value:
        if ack is None:
            continue
        if type(ack) is not list or len(ack) != 2:
            return False
        partition, offset = ack
        if type(partition) is not int or not -1 <= partition < _MOST_SMALL:
            return False
        if offset is not None and not is_number(offset):
            return False
    return True


def _records(value: object) -> bool:
    """For each record: its offset, and the name of its attempt, which may be null."""
    if type(value) is not list:
        return False
    for record in value:
        if type(record) is not list or len(record) != 2 or type(record[0]) is not int:
            return False
        if not 0 <= record[0] < MOST or type(record[1]) not in _TEXT_OR_NONE:
            return False
    return True


def _range(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(is_number, value))


def _text(value: object) -> bool:
    return isinstance(value, str)


FIELD_CHECKS: Mapping[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("op", "ops", "call", "rows", "crc", "errors", "txn", "at", "since"), is_number),
    "pid": _small,
    "process": lambda value: is_number(value, -1),
    **dict.fromkeys(("journal", "role", "stage", "f", "error", "isolation", "table", "file"), _text),
    **dict.fromkeys(("transactional_id", "asked", "worker", "bootstrap", "target", "evidence"), _text),
    **dict.fromkeys(
        ("abort_error", "retried", "client", "client_version", "library_version", "waits"), _text
    ),
    **dict.fromkeys(("gained", "fenced", "surprise"), lambda value: type(value) is bool),
    **dict.fromkeys(("parameters", "ends"), lambda value: isinstance(value, dict)),
    "sends": _sends,
    "acks": _acks,
    "claims": _by_partition(_range),
    "records": _by_partition(_records),
    "partitions": _each(is_partition_name),
    "micro": _each(lambda value: value is None or is_partition_name(value)),
    "starts": _each(lambda value: value is None or is_number(value)),
}
"""By field name: the check of its value. A null is valid only if it is the default of the field."""


class NotAnEvent(ValueError):
    """A line is not an event of a journal."""


@dataclass(frozen=True)
class Event:
    """The base class of events."""

    fixed: ClassVar[Mapping[str, str]] = {}
    """The fields that all lines of this kind have, with their values."""

    def body(self) -> dict[str, Any]:
        """Return the fields of the line, without `index` and `time`."""
        defaults = _DEFAULTS[type(self)]
        own_fields = {name: value for name, value in vars(self).items() if value is not defaults[name]}
        return {**self.fixed, **own_fields}


@dataclass(frozen=True)
class JournalBegan(Event):
    """The first line: it identifies the process."""

    fixed: ClassVar = {"type": "begin"}
    journal: str
    pid: int | None = None  # set by `Journal`
    role: str = "unknown"
    stage: str | None = None
    worker: str | None = None
    process: int | None = None
    bootstrap: str | None = None
    client: str | None = None  # the client library: librdkafka or java
    client_version: str | None = None  # of its package: confluent-kafka or kafka-clients
    library_version: str | None = None  # of librdkafka


@dataclass(frozen=True)
class JournalEnded(Event):
    """The last line: the process has ended, after `ops` operations."""

    fixed: ClassVar = {"type": "end"}
    ops: int


@dataclass(frozen=True)
class Invoked(Event):
    """An operation that may take effect is about to start."""

    fixed: ClassVar = {"type": "invoke"}
    f: str  # txn, send, init, commit-offsets, or a fault
    process: int
    op: int
    asked: str | None = None  # of a transaction: how the process means to end it, commit or abort
    transactional_id: str | None = None
    # For each send: topic, output name, digest; then a partition and an offset for each input.
    sends: Sequence[Sequence[Any]] = ()
    # By partition: the offset of the first input, and the offset to commit.
    claims: Mapping[str, tuple[int, int]] | None = None
    txn: int | None = None  # of a commit outside a transaction: the operation whose inputs it commits
    # Only of a transaction that polls. For each micro-operation: the target partition of a send, or null for a poll.
    micro: Sequence[str | None] = ()
    target: str | None = None  # of a fault
    parameters: Mapping[str, str | float] | None = None  # of a fault or of a change of the churn


@dataclass(frozen=True)
class EndInvoked(Event):
    """The process is about to commit or abort a transaction, after it has received these acknowledgements."""

    type: Literal["commit", "abort"]
    op: int
    acks: Sequence[Ack | None]  # by the index of the record in the transaction


@dataclass(frozen=True)
class Completed(Event):
    """An operation has completed, or its outcome is not known (`info`)."""

    type: Outcome
    f: str
    process: int
    op: int
    acks: Sequence[Ack | None] | None = None  # None: `EndInvoked` has them
    error: str | None = None
    fenced: bool = False
    surprise: bool = False  # the error is of an unexpected type
    abort_error: str | None = None
    target: str | None = None  # of a fault: its actual target
    evidence: str | None = None  # of a fault: the proof that it acted


@dataclass(frozen=True)
class Polled(Event):
    """A poll has returned records. A poll has no effect, so it has no invocation."""

    fixed: ClassVar = {"type": "ok", "f": "poll"}
    process: int
    op: int
    call: int
    records: Rows | None = None  # for each record: its offset and the name of its attempt
    txn: int | None = None  # the transaction of the poll; None: outside a transaction
    at: int | None = None  # the index of the poll among the micro-operations of the transaction


@dataclass(frozen=True)
class Assigned(Event):
    """Partitions were assigned (`gained`), or were revoked or lost."""

    fixed: ClassVar = {"type": "assign"}
    process: int
    gained: bool
    partitions: Sequence[str]
    # For each assigned partition: the offset at which the consumer starts to read.
    starts: Sequence[int | None] | None = None


@dataclass
class ReadEnd:
    """The end of a reader's read of a partition. The fields are columns of the table `ends`."""

    first: int = 0
    next: int = 0
    read: int = 0
    sentinel: int | None = None
    expected: int | None = None


@dataclass(frozen=True)
class EndsRead(Event):
    """A reader has ended: how far it has read each of its partitions."""

    fixed: ClassVar = {"type": "ends"}
    isolation: str
    ends: Mapping[str, ReadEnd]
    errors: int = 0  # how many errors its consumer has reported


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
    """An error that did not end the process. It is only for human readers."""

    fixed: ClassVar = {"type": "note"}
    op: int | None = None
    error: str | None = None
    retried: str | None = None  # the error after which the process retried
    errors: int | None = None  # the number of errors so far
    waits: str | None = None  # the client call that takes too long
    since: int | None = None  # when that call began, in nanoseconds


_KINDS: Sequence[type[Event]] = (
    *(JournalBegan, JournalEnded, Invoked, EndInvoked, Completed, Polled),
    *(Assigned, EndsRead, PartWritten, ErrorNoted),
)
_DEFAULTS = {kind: {field.name: field.default for field in fields(kind)} for kind in _KINDS}
_BY_TYPE: Mapping[str, type[Event]] = {
    **{kind.fixed["type"]: kind for kind in _KINDS if kind.fixed},
    **dict.fromkeys(("commit", "abort"), EndInvoked),
    **dict.fromkeys(Outcome, Completed),
}


KINDS = ("txn", "send", "init", "commit-offsets")
"""The operations of the processes of a pipeline, except polls."""


def parse(line: Mapping[str, Any]) -> Event:
    """Return the event of a line. Raises `NotAnEvent`."""
    polled = line.get("f") == "poll" and line.get("type") == Outcome.OK
    kind = Polled if polled else _BY_TYPE.get(str(line.get("type")))
    if kind is None:
        raise NotAnEvent(f"a journal has no event of type {line.get('type')!r}")
    values = {name: line[name] for name in _DEFAULTS[kind] if name in line}
    for name, value in values.items():
        is_valid = FIELD_CHECKS.get(name)
        if not (_DEFAULTS[kind][name] is None if value is None else is_valid is None or is_valid(value)):
            raise NotAnEvent(f"{name} of an event cannot be {str(value)[:60]!r}")
    try:
        if kind is Completed:
            values["type"] = Outcome(values["type"])
        elif kind is EndsRead:
            values["ends"] = {
                partition_name: _read_end(partition_name, end)
                for partition_name, end in values["ends"].items()
            }
        return kind(**values)
    except (TypeError, LookupError, AttributeError) as error:
        raise NotAnEvent(f"an event of type {line.get('type')!r} is not complete: {error}") from error


def _read_end(partition_name: str, end: Mapping[str, Any]) -> ReadEnd:
    if not is_partition_name(partition_name) or not all(
        value is None or is_number(value, -MOST) for value in end.values()
    ):
        raise NotAnEvent(f"a reader cannot have read {partition_name!r} as far as {end!r}")
    return ReadEnd(**end)
