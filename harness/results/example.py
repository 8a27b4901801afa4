"""An example of a finding: its parts by kind, and the words that describe them.

`KINDS` says for each key of an example which kind of parts it holds. The checkers, the decoder and the encoder of
`verdict.json` and the reports share this table. `checkers.checking.explain` lists the facts of each kind.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Self, TypeVar

from harness.common.wording import integer, join_words, printable

UNNAMED_OPERATION = "an operation without a name"
FATES = {"commit": "committed", "abort": "aborted", "open": "still open", "plain": "not transactional"}
CONTENT_LIMIT = 260
"""The largest number of characters of a record's content. Stored excerpts are shorter, so they are shown in full."""
PARTS_LIMIT = 200
"""The largest number of parts of each kind in one example. A transaction of a million records would be too large to
show.
"""
P = TypeVar("P", bound="Part")


class Part:
    """A part of an example, such as a position or a replica. The subclasses are the kinds that reports distinguish.

    A stored verdict may hold anything, so every fact may be absent, null or of any JSON type.

    Args:
        label: its key in the example; in a list, the key without the plural s
        facts: JSON by key; an object under a key of `KINDS` is a part
    """

    def __init__(self, label: str, facts: dict[str, Any]) -> None:
        self.label = label
        self.facts = facts

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.label!r}, {self.facts!r})"

    @classmethod
    def from_json(cls, body: Mapping[str, Any], label: str = "operation") -> Self:
        """Decode an object of `verdict.json`. Raises TypeError if it is not an object."""
        if not isinstance(body, Mapping):
            raise TypeError(f"expected an object, not {body!r}")
        return cls(label, {key: _decode(key, value) for key, value in body.items()})

    def as_json(self) -> dict[str, Any]:
        """Return the object of `verdict.json`."""
        return {key: _encode(value) for key, value in self.facts.items()}

    def get(self, name: str) -> Any:
        """Return a fact; None if it is absent or null."""
        return self.facts.get(name)

    @property
    def partition(self) -> str:
        """The partition, such as `invoices/3`. A number that is not known is a `?`."""
        topic, partition = self.get("topic"), self.get("partition")
        if topic is None and partition is None:
            return "an unknown partition"
        return f"{printable(topic)}/{'?' if partition is None else printable(partition)}"

    @property
    def position(self) -> str:
        """The partition and the offset, such as `invoices/3 offset 17`. An unknown offset is left out."""
        offset = self.get("offset")
        return self.partition if offset is None else f"{self.partition} offset {printable(offset)}"

    @property
    def words(self) -> str:
        """The part in words. Kinds with more facts than a position say more."""
        return self.position

    @property
    def fate(self) -> str:
        """The fate in words, with the offset of the marker if it is known."""
        if self.get("fate") is None:
            return "of unknown fate"
        marker = self.get("marker_offset")
        word = describe_fate(self.get("fate"))
        return word if marker is None else f"{word} by the marker at offset {printable(marker)}"


class Record(Part):
    """A record in a partition."""

    @property
    def words(self) -> str:
        """The value and the position: `shop-1.0:42:0 at invoices/3 offset 17`."""
        value = self.get("value")
        if value is not None:
            return f"{printable(value, 60)} at {self.position}"
        return f"the record at {self.position}" if self.facts.keys() & {"topic", "offset"} else "a record"


class Operation(Part):
    """An operation of a client."""

    @property
    def words(self) -> str:
        """The number if there is no name, otherwise the first of name, journal, transactional id and stage that is
        known.
        """
        if self.get("op") is not None and self.get("name") is None:
            return f"operation {printable(self.get('op'), 30)}"
        for name in ("name", "journal", "transactional_id", "stage"):
            if self.get(name) is not None:
                return printable(self.get(name), 100)
        return UNNAMED_OPERATION


class PassingCommit(Record):
    """The offset commit by which a group passed an input: a record, with the facts of the operation that committed."""

    @property
    def operation(self) -> Operation:
        """The operation."""
        return Operation(self.label, self.facts)


class Input(Part):
    """An input of a stage."""

    @property
    def expected_outputs(self) -> list[Mapping[str, Any]]:
        """The expected outputs, which are stored for custom pipelines only."""
        due = self.get("due")
        return [output for output in due if isinstance(output, Mapping)] if isinstance(due, list) else []


class Offset(Part):
    """An offset that a group committed, or a range of inputs."""

    @property
    def words(self) -> str:
        """The partition and the offset: `purchases/1 up to 816`, or for a range `purchases/1 from 812 up to 816`."""
        first = "" if self.get("first") is None else f" from {printable(self.get('first'), 30)}"
        return f"{self.partition}{first} up to {printable(self.facts.get('committed', self.get('next')), 30)}"


class Dependency(Part):
    """A step of a cycle: an operation depends on another one."""


KINDS: Mapping[str, type[Part]] = {
    **dict.fromkeys(("record", "records", "record_before", "record_open"), Record),
    **dict.fromkeys(("aborted_records", "gone_records", "read", "unread", "following"), Record),
    **dict.fromkeys(("operation", "operations", "reader", "writer", "own_init", "other_init"), Operation),
    **dict.fromkeys(("read_beyond", "from", "to"), Operation),
    **dict.fromkeys(("input", "input_before"), Input),
    **dict.fromkeys(("offsets", "aborted_offsets", "gone_offsets", "claims"), Offset),
    "passed_by": PassingCommit,
    "cycle": Dependency,
    **dict.fromkeys(("place", "partitions", "completions", "completion", "replicas"), Part),
}
"""By key of an example or of a part: the kind of the object that it holds, or of the objects in its list."""


class Example:
    """One example of a finding.

    Args:
        facts: By key, in the order of `verdict.json`: a part, a list of parts, or JSON if the key is not in `KINDS`.
    """

    def __init__(self, facts: dict[str, Any]) -> None:
        self.facts = facts

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Example) and other.facts == self.facts

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Example({self.facts!r})"

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> "Example":
        """Decode an entry of `examples`. Raises TypeError if it is not an object."""
        if not isinstance(body, Mapping):
            raise TypeError(f"expected an object, not {body!r}")
        return cls({key: _decode(key, value) for key, value in body.items()})

    def as_json(self) -> dict[str, Any]:
        """Return the entry of `examples`."""
        return {key: _encode(value) for key, value in self.facts.items()}

    def parts(self) -> Iterator[Part]:
        """Yield all parts, also those inside other parts."""
        return _parts_in(self.facts.values())

    @property
    def records(self) -> list[Record]:
        """The records."""
        return self._of_kind(Record)

    @property
    def operations(self) -> list[Operation]:
        """The operations."""
        return self._of_kind(Operation)

    @property
    def inputs(self) -> list[Input]:
        """The inputs."""
        return self._of_kind(Input)

    @property
    def offsets(self) -> list[Offset]:
        """The committed offsets, and the input ranges of operations."""
        return self._of_kind(Offset)

    @property
    def positions(self) -> list[Part]:
        """The positions that are neither records nor inputs."""
        others = (part for part in self.parts() if type(part) is Part and "offset" in part.facts)
        return list(islice(others, PARTS_LIMIT))

    @property
    def rest(self) -> dict[str, Any]:
        """The facts that are not parts, without nulls."""
        return {
            key: value
            for key, value in self.facts.items()
            if value is not None
            and not any(_parts_in([value]))
            and not (key in KINDS and isinstance(value, list) and not value)
        }

    def _of_kind(self, kind: type[P]) -> list[P]:
        """Return the first `PARTS_LIMIT` parts of a kind. Parts with the same facts are returned once."""
        parts: list[P] = []
        for part in self.parts():
            if len(parts) == PARTS_LIMIT:
                break
            if isinstance(part, kind) and all(part.facts != earlier.facts for earlier in parts):
                parts.append(part)
        return parts

    def part(self, key: str) -> Part | None:
        """Return the part with this key at the top level."""
        part = self.facts.get(key)
        return part if isinstance(part, Part) else None

    def writer(self, record: Record) -> Operation | None:
        """Return the operation that wrote a record: the one inside the record, the one next to it in the example, or
        the one that it names.
        """
        enclosing = self.facts if self.facts.get(record.label) is record else {}
        for facts in (record.facts, enclosing):
            for key in ("operation", "writer"):
                if isinstance(operation := facts.get(key), Operation):
                    return operation
        if (op := record.get("op")) is None:
            return None
        same = (operation for operation in self.operations if operation.get("op") == op)
        return next(same, Operation("operation", {"op": op}))

    @property
    def first_record(self) -> Record:
        """The first record; without facts if there is none."""
        return next(iter(self.records), Record("record", {}))

    @property
    def first_operation(self) -> Operation:
        """The first operation other than the reader; without facts if there is none."""
        others = (operation for operation in self.operations if operation.label != "reader")
        return next(others, Operation("operation", {}))

    @property
    def record(self) -> str:
        """The first record, in words."""
        return self.first_record.words

    @property
    def operation(self) -> str:
        """The first operation other than the reader, in words."""
        return self.first_operation.words

    @property
    def reader(self) -> str:
        """The reader, in words."""
        reader = self.facts.get("reader")
        if isinstance(reader, Operation):
            return reader.words
        return printable(reader) if reader is not None else "a read-committed reader"

    @property
    def input(self) -> str:
        """The first input, in words."""
        return f"input {self.inputs[0].position}" if self.inputs else "an input"

    @property
    def two_records(self) -> tuple[str, str]:
        """The first two records, in words."""
        words = [record.words for record in self.records[:2]]
        first, second = [*words, *("a record", "another")[len(words) :]]
        return first, second

    @property
    def producer(self) -> str:
        """The producer at the top level, in words."""
        return f"of producer {printable(self.facts.get('producer_id'))}"

    @property
    def transactional_id(self) -> str:
        """The transactional id at the top level, in words."""
        transactional_id = self.facts.get("transactional_id")
        return "a transactional id" if transactional_id is None else printable(transactional_id, 60)

    @property
    def content(self) -> str | None:
        """The content of the first record. None if it is not stored: only custom pipelines have it."""
        content = self.first_record.get("content")
        return None if content is None else printable(content, CONTENT_LIMIT)

    @property
    def expected_content(self) -> str | None:
        """The content of the first input's expected output that has the example's output name.

        None if it is not stored: only custom pipelines have it.
        """
        outputs = self.inputs[0].expected_outputs if self.inputs else []
        contents = [
            output.get("content") for output in outputs if output.get("slot") == self.facts.get("slot")
        ]
        return printable(contents[0], CONTENT_LIMIT) if contents and contents[0] is not None else None

    def moment_s(self) -> float | None:
        """The time at which the last operation began to commit, in seconds since the run began. None: not known."""
        times_ns = [time_ns for part in self.operations if (time_ns := _time_ns(part)) is not None]
        return max(times_ns) / 1e9 if times_ns else None


def _decode(key: str, value: Any) -> Any:
    kind = KINDS.get(key)
    if kind is None:
        return value
    if isinstance(value, Mapping):
        return kind.from_json(value, key)
    if isinstance(value, list):
        label = key.removesuffix("s")
        return [kind.from_json(item, label) if isinstance(item, Mapping) else item for item in value]
    return value


def _encode(value: Any) -> Any:
    if isinstance(value, list):
        return [item.as_json() if isinstance(item, Part) else item for item in value]
    return value.as_json() if isinstance(value, Part) else value


def _parts_in(values: Iterable[Any]) -> Iterator[Part]:
    for value in values:
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, Part):
                yield part
                yield from _parts_in(part.facts.values())


def _time_ns(operation: Operation) -> int | None:
    times_ns = (integer(operation.get(name)) for name in ("commit_ns", "call_ns", "return_ns"))
    return next((time_ns for time_ns in times_ns if time_ns is not None), None)


def describe_fate(fate: object) -> str:
    """Return the fate of a record or of a transaction in words."""
    return FATES.get(str(fate), printable(fate, 40))


def describe_example(name: str, example: Example) -> str:
    """Describe the example of an anomaly for which there is no wording."""
    parts = [part.words for part in (*example.records, *example.operations)]
    parts += [f"input {part.position}" for part in example.inputs]
    parts += [f"{printable(label, 40)} {printable(value, 80)}" for label, value in example.rest.items()]
    return f"{printable(name, 60)}: {join_words(parts, 6) if parts else 'no details'}"
