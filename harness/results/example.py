"""One example of a finding: its records, operations and inputs, wherever they are nested.

Examples come as nested mappings. By convention `record` is {topic, partition, offset, value,
producer_id, epoch, fate, marker_offset}, `operation` is a row of the table of operations, `input`
is {topic, partition, offset}, and plurals are lists of these. An offset that a group committed is {topic,
partition, committed}, a range of inputs {topic, partition, first, next}. Every field may be absent or null,
and other names may hold the same shapes, so what something is, is told by its shape too.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from harness.results.wording import integer, join_words, printable

Body = Mapping[str, Any]
UNNAMED_OPERATION = "an operation that nobody named"
FATES = {"commit": "committed", "abort": "aborted", "open": "still open", "plain": "not transactional"}
_OPERATION_FIELDS = frozenset({"op", "journal", "call_ns", "commit_ns", "return_ns", "outcome"})
_RECORD_FIELDS = frozenset({"value", "fate", "producer_id", "epoch", "marker_offset"})
_OFFSET_FIELDS = frozenset({"committed", "first", "next"})
CONTENT = 260
"""Characters of what a record holds: more than are kept of it."""
MOST_PARTS = 200
"""Of each kind, in one example: a transaction of a million records is not drawn whole."""


@dataclass(frozen=True)
class ExamplePart:
    """A record, an operation or an input, the name that it goes by, and who stands beside it."""

    label: str
    body: Body
    operation: Body | None = None  # for a record: the one that stands beside it or in it


class Example:
    """What one example holds, sorted by kind."""

    def __init__(self, body: Body) -> None:
        self.body = body
        self.records: list[ExamplePart] = []
        self.operations: list[ExamplePart] = []
        self.inputs: list[ExamplePart] = []
        self.offsets: list[ExamplePart] = []  # what groups committed, and the ranges that operations claimed
        self.rest: dict[str, Any] = {}  # the scalars at the top
        for label, value in body.items():
            self._sort(str(label), value, body)
        self.records = [self._with_writer(part) for part in self.records]

    def _with_writer(self, record: ExamplePart) -> ExamplePart:
        """A record may name its operation by number only; it may stand elsewhere in the example."""
        op = record.body.get("op")
        if record.operation is not None or op is None:
            return record
        known = (part.body for part in self.operations if part.body.get("op") == op)
        return replace(record, operation=next(known, {"op": op}))

    def _sort(self, label: str, value: object, around: Body) -> None:
        if isinstance(value, Mapping):
            self._sort_mapping(label, value, around)
        elif isinstance(value, list | tuple) and any(isinstance(item, Mapping) for item in value):
            for item in value[:MOST_PARTS]:
                self._sort(_singular(label), item, {})
        elif around is self.body and value is not None:
            self.rest[label] = value

    def _sort_mapping(self, label: str, value: Body, around: Body) -> None:
        kind = _kind(label, value)
        if kind == "operation":
            self._add(self.operations, ExamplePart(label, value))
        elif kind == "record":
            self._add(self.records, ExamplePart(label, value, _operation_beside(value, around)))
        elif kind == "input":
            self._add(self.inputs, ExamplePart(label, value))
        elif kind == "offset":
            self._add(self.offsets, ExamplePart(label, value))
        for name, inner in value.items():
            if isinstance(inner, Mapping | list | tuple):
                self._sort(str(name), inner, value)

    @staticmethod
    def _add(parts: list[ExamplePart], part: ExamplePart) -> None:
        if len(parts) < MOST_PARTS and all(part.body != other.body for other in parts):
            parts.append(part)

    @property
    def record(self) -> str:
        """The first record in words."""
        return describe_record(self.records[0].body) if self.records else "a record"

    @property
    def operation(self) -> str:
        """The first operation that is not the reader, in words."""
        writers = [part for part in self.operations if part.label != "reader"]
        return describe_operation(writers[0].body) if writers else UNNAMED_OPERATION

    @property
    def reader(self) -> str:
        """Who read, in words."""
        reader = self.body.get("reader")
        if isinstance(reader, Mapping):
            return describe_operation(reader)
        return printable(reader) if reader is not None else "a read-committed reader"

    @property
    def input(self) -> str:
        """The first input in words."""
        return f"input {describe_place(self.inputs[0].body)}" if self.inputs else "an input"

    @property
    def two_records(self) -> tuple[str, str]:
        """The first two records in words."""
        named = [describe_record(part.body) for part in self.records[:2]]
        first, second = [*named, *("a record", "another")[len(named) :]]
        return first, second

    @property
    def producer(self) -> str:
        """The producer at the top, in words."""
        return f"of producer {printable(self.rest.get('producer_id'))}"

    @property
    def transactional_id(self) -> str:
        """The transactional id at the top, in words."""
        own = self.rest.get("transactional_id")
        return "a transactional id" if own is None else printable(own, 60)

    @property
    def content(self) -> str | None:
        """What the first record holds, where a program of a user's wrote it."""
        content = self.first_record().get("content")
        return None if content is None else printable(content, CONTENT)

    @property
    def expected_content(self) -> str | None:
        """The expected output of the first input with the example's output name, in a custom pipeline."""
        due = self.inputs[0].body.get("due") if self.inputs else None
        outputs = [one for one in due if isinstance(one, Mapping)] if isinstance(due, list) else []
        named = [one.get("content") for one in outputs if one.get("slot") == self.rest.get("slot")]
        return printable(named[0], CONTENT) if named and named[0] is not None else None

    def inner(self, name: str) -> Body:
        """The mapping of this name at the top; empty if there is none."""
        body = self.body.get(name)
        return body if isinstance(body, Mapping) else {}

    def first_record(self) -> Body:
        """The first record, empty if there is none."""
        return self.records[0].body if self.records else {}

    def first_operation(self) -> Body:
        """The first operation that is not the reader, empty if there is none."""
        return next((part.body for part in self.operations if part.label != "reader"), {})

    def moment_s(self) -> float | None:
        """When the last of its operations began to take effect, in seconds since the run began."""
        moments = [moment for part in self.operations if (moment := _moment_ns(part.body)) is not None]
        return max(moments) / 1e9 if moments else None


def _moment_ns(operation: Body) -> int | None:
    for name in ("commit_ns", "call_ns", "return_ns"):
        moment = integer(operation.get(name))
        if moment is not None:
            return moment
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


def _operation_beside(record: Body, around: Body) -> Body | None:
    for body in (record, around):
        for name in ("operation", "writer"):
            found = body.get(name)
            if isinstance(found, Mapping):
                return found
    return None


def _singular(label: str) -> str:
    return label[:-1] if label.endswith("s") else label


def describe_place(body: Body) -> str:
    """`invoices/3 offset 17`, as far as it is known."""
    topic, partition, offset = body.get("topic"), body.get("partition"), body.get("offset")
    if topic is None and partition is None:
        where = "a partition nobody named"
    else:
        where = f"{printable(topic)}/{'?' if partition is None else printable(partition)}"
    return where if offset is None else f"{where} offset {printable(offset)}"


def describe_offset(body: Body) -> str:
    """`purchases/1 up to 816`, and what became of it; or `purchases/1 from 812 up to 816`."""
    where = describe_place({key: value for key, value in body.items() if key != "offset"})
    first = "" if body.get("first") is None else f" from {printable(body['first'], 30)}"
    return f"{where}{first} up to {printable(body.get('committed', body.get('next')), 30)}"


def describe_record(body: Body) -> str:
    """`shop-1.0:42:0 at invoices/3 offset 17`."""
    value = body.get("value")
    if value is None:
        return f"the record at {describe_place(body)}" if "topic" in body or "offset" in body else "a record"
    return f"{printable(value, 60)} at {describe_place(body)}"


def describe_operation(body: Body) -> str:
    """The operation's name, or whatever else tells it from others."""
    if body.get("op") is not None and body.get("name") is None:
        return f"operation {printable(body['op'], 30)}"
    for name in ("name", "journal", "transactional_id", "stage"):
        if body.get(name) is not None:
            return printable(body[name], 60)
    return UNNAMED_OPERATION


def fate(record: Body) -> str:
    """What a record's marker says, as far as it is known."""
    if record.get("fate") is None:
        return "of unknown fate"
    said = FATES.get(str(record["fate"]), printable(record["fate"], 40))
    marker = record.get("marker_offset")
    return said if marker is None else f"{said} by the marker at offset {printable(marker)}"


def describe_example(name: str, body: Body) -> str:
    """An example of an anomaly that nobody has words for, in one sentence."""
    e = Example(body)
    parts = [describe_record(part.body) for part in e.records]
    parts += [describe_operation(part.body) for part in e.operations]
    parts += [f"input {describe_place(part.body)}" for part in e.inputs]
    parts += [f"{printable(label, 40)} {printable(value, 80)}" for label, value in e.rest.items()]
    return f"{printable(name, 60)}: {join_words(parts, 6) if parts else 'no details given'}"


def read_operations(examples: Iterator[Body]) -> Iterator[Body]:
    """Every operation in some examples, in their order."""
    for body in examples:
        for part in Example(body).operations:
            yield part.body
