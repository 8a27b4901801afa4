"""An example of a finding: collects its records, operations and inputs, and describes them in words.

An example is a nested mapping. By convention its keys have these values:

- `record`: {topic, partition, offset, value, producer_id, epoch, fate, marker_offset};
- `operation`: a row of the table of operations;
- `input`: {topic, partition, offset};
- an offset that a group committed: {topic, partition, committed};
- a range of inputs: {topic, partition, first, next};
- a plural such as `records`: a list of them.

Every field may be absent or null. Other keys may have values of the same shapes, so `Example` recognises a value by
its key or by its shape.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from harness.results.wording import integer, join_words, printable

Body = Mapping[str, Any]
UNNAMED_OPERATION = "an operation without a name"
FATES = {"commit": "committed", "abort": "aborted", "open": "still open", "plain": "not transactional"}
_OPERATION_FIELDS = frozenset({"op", "journal", "call_ns", "commit_ns", "return_ns", "outcome"})
_RECORD_FIELDS = frozenset({"value", "fate", "producer_id", "epoch", "marker_offset"})
_OFFSET_FIELDS = frozenset({"committed", "first", "next"})
CONTENT_LIMIT = 260
"""Characters of a record's content. Stored excerpts are shorter, so they are shown in full."""
PARTS_LIMIT = 200
"""Parts of each kind in one example. A transaction of a million records would be too large to show."""


@dataclass(frozen=True)
class ExamplePart:
    """A record, an operation, an input or an offset in an example."""

    label: str  # its key in the example
    body: Body
    operation: Body | None = None  # of a record: the operation inside it or next to it


class Example:
    """The parts of one example, sorted by kind."""

    def __init__(self, body: Body) -> None:
        self.body = body
        self.records: list[ExamplePart] = []
        self.operations: list[ExamplePart] = []
        self.inputs: list[ExamplePart] = []
        self.offsets: list[ExamplePart] = []  # committed offsets, and input ranges of operations
        self.rest: dict[str, Any] = {}  # the scalars at the top level
        for label, value in body.items():
            self._sort(str(label), value, body)
        self.records = [self._with_writer(part) for part in self.records]

    def _with_writer(self, record: ExamplePart) -> ExamplePart:
        """Add the operation that the record names by number, if the example has it."""
        op = record.body.get("op")
        if record.operation is not None or op is None:
            return record
        known = (part.body for part in self.operations if part.body.get("op") == op)
        return replace(record, operation=next(known, {"op": op}))

    def _sort(self, label: str, value: object, parent: Body) -> None:
        if isinstance(value, Mapping):
            self._sort_mapping(label, value, parent)
        elif isinstance(value, list | tuple) and any(isinstance(item, Mapping) for item in value):
            for item in value[:PARTS_LIMIT]:
                self._sort(_singular(label), item, {})
        elif parent is self.body and value is not None:
            self.rest[label] = value

    def _sort_mapping(self, label: str, value: Body, parent: Body) -> None:
        kind = _kind(label, value)
        if kind == "operation":
            self._add(self.operations, ExamplePart(label, value))
        elif kind == "record":
            self._add(self.records, ExamplePart(label, value, _operation_near(value, parent)))
        elif kind == "input":
            self._add(self.inputs, ExamplePart(label, value))
        elif kind == "offset":
            self._add(self.offsets, ExamplePart(label, value))
        for name, inner in value.items():
            if isinstance(inner, Mapping | list | tuple):
                self._sort(str(name), inner, value)

    @staticmethod
    def _add(parts: list[ExamplePart], part: ExamplePart) -> None:
        if len(parts) < PARTS_LIMIT and all(part.body != other.body for other in parts):
            parts.append(part)

    @property
    def record(self) -> str:
        """The first record, in words."""
        return describe_record(self.records[0].body) if self.records else "a record"

    @property
    def operation(self) -> str:
        """The first operation other than the reader, in words."""
        writers = [part for part in self.operations if part.label != "reader"]
        return describe_operation(writers[0].body) if writers else UNNAMED_OPERATION

    @property
    def reader(self) -> str:
        """The reader, in words."""
        reader = self.body.get("reader")
        if isinstance(reader, Mapping):
            return describe_operation(reader)
        return printable(reader) if reader is not None else "a read-committed reader"

    @property
    def input(self) -> str:
        """The first input, in words."""
        return f"input {describe_position(self.inputs[0].body)}" if self.inputs else "an input"

    @property
    def two_records(self) -> tuple[str, str]:
        """The first two records, in words."""
        words = [describe_record(part.body) for part in self.records[:2]]
        first, second = [*words, *("a record", "another")[len(words) :]]
        return first, second

    @property
    def producer(self) -> str:
        """The producer at the top level, in words."""
        return f"of producer {printable(self.rest.get('producer_id'))}"

    @property
    def transactional_id(self) -> str:
        """The transactional id at the top level, in words."""
        transactional_id = self.rest.get("transactional_id")
        return "a transactional id" if transactional_id is None else printable(transactional_id, 60)

    @property
    def content(self) -> str | None:
        """The content of the first record. None if it is not stored: only custom pipelines have it."""
        content = self.first_record().get("content")
        return None if content is None else printable(content, CONTENT_LIMIT)

    @property
    def expected_content(self) -> str | None:
        """The content of the first input's expected output that has the example's output name.

        None if it is not stored: only custom pipelines have it.
        """
        due = self.inputs[0].body.get("due") if self.inputs else None
        outputs = [output for output in due if isinstance(output, Mapping)] if isinstance(due, list) else []
        contents = [
            output.get("content") for output in outputs if output.get("slot") == self.rest.get("slot")
        ]
        return printable(contents[0], CONTENT_LIMIT) if contents and contents[0] is not None else None

    def inner(self, name: str) -> Body:
        """The mapping with this key at the top level; empty if there is none."""
        body = self.body.get(name)
        return body if isinstance(body, Mapping) else {}

    def first_record(self) -> Body:
        """The first record, empty if there is none."""
        return self.records[0].body if self.records else {}

    def first_operation(self) -> Body:
        """The first operation other than the reader, empty if there is none."""
        return next((part.body for part in self.operations if part.label != "reader"), {})

    def moment_s(self) -> float | None:
        """The time at which the last operation began to commit, in seconds since the run began. None: not known."""
        times_ns = [time_ns for part in self.operations if (time_ns := _time_ns(part.body)) is not None]
        return max(times_ns) / 1e9 if times_ns else None


def _time_ns(operation: Body) -> int | None:
    for name in ("commit_ns", "call_ns", "return_ns"):
        time_ns = integer(operation.get(name))
        if time_ns is not None:
            return time_ns
    return None


def _kind(label: str, value: Body) -> str | None:
    for kind in ("record", "operation", "input"):
        if kind in label.split("_"):
            return kind
    if "offset" not in value and _OFFSET_FIELDS & value.keys():
        return "offset"
    if "offset" in value and _RECORD_FIELDS & value.keys():
        return "record"
    if _OPERATION_FIELDS & value.keys():
        return "operation"
    return "input" if "offset" in value else None


def _operation_near(record: Body, parent: Body) -> Body | None:
    for body in (record, parent):
        for name in ("operation", "writer"):
            operation = body.get(name)
            if isinstance(operation, Mapping):
                return operation
    return None


def _singular(label: str) -> str:
    return label[:-1] if label.endswith("s") else label


def describe_position(body: Body) -> str:
    """Return `invoices/3 offset 17`. What is not known is left out, or shown as `?`."""
    topic, partition, offset = body.get("topic"), body.get("partition"), body.get("offset")
    if topic is None and partition is None:
        where = "an unknown partition"
    else:
        where = f"{printable(topic)}/{'?' if partition is None else printable(partition)}"
    return where if offset is None else f"{where} offset {printable(offset)}"


def describe_offset(body: Body) -> str:
    """Return `purchases/1 up to 816`, or for a range `purchases/1 from 812 up to 816`."""
    where = describe_position({key: value for key, value in body.items() if key != "offset"})
    first = "" if body.get("first") is None else f" from {printable(body['first'], 30)}"
    return f"{where}{first} up to {printable(body.get('committed', body.get('next')), 30)}"


def describe_record(body: Body) -> str:
    """Return `shop-1.0:42:0 at invoices/3 offset 17`."""
    value = body.get("value")
    if value is None:
        return (
            f"the record at {describe_position(body)}" if "topic" in body or "offset" in body else "a record"
        )
    return f"{printable(value, 60)} at {describe_position(body)}"


def describe_operation(body: Body) -> str:
    """Return the operation's name, number, journal, transactional id or stage: the first that is known."""
    if body.get("op") is not None and body.get("name") is None:
        return f"operation {printable(body['op'], 30)}"
    for name in ("name", "journal", "transactional_id", "stage"):
        if body.get(name) is not None:
            return printable(body[name], 60)
    return UNNAMED_OPERATION


def fate(record: Body) -> str:
    """Return the fate of a record, and the offset of its marker if it is known."""
    if record.get("fate") is None:
        return "of unknown fate"
    word = FATES.get(str(record["fate"]), printable(record["fate"], 40))
    marker = record.get("marker_offset")
    return word if marker is None else f"{word} by the marker at offset {printable(marker)}"


def describe_example(name: str, body: Body) -> str:
    """Describe the example of an anomaly that has no wording of its own."""
    e = Example(body)
    parts = [describe_record(part.body) for part in e.records]
    parts += [describe_operation(part.body) for part in e.operations]
    parts += [f"input {describe_position(part.body)}" for part in e.inputs]
    parts += [f"{printable(label, 40)} {printable(value, 80)}" for label, value in e.rest.items()]
    return f"{printable(name, 60)}: {join_words(parts, 6) if parts else 'no details given'}"


def read_operations(examples: Iterator[Body]) -> Iterator[Body]:
    """Yield the operations of all examples, in their order."""
    for body in examples:
        for part in Example(body).operations:
            yield part.body
