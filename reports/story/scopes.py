"""Scopes of the story: the points of one record, operation, transactional id or fault, in order of time.

`trace_commands` chooses the scope for an example of a finding, and writes its `fencepost trace` command. A command is
offered only if the run's tables can answer it.
"""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.common.errors import UnreadableInput
from harness.common.wording import integer
from harness.record.table_reader import RunTables, TopicPartition
from harness.results.example import Example
from reports.story import by_journals, by_logs
from reports.story.model import Point
from reports.story.run import Story

MOST_CHARACTERS = 200
"""Longer names are not names of Kafka or of a worker."""


def of_operation(story: Story, name: str) -> list[Point]:
    """Return the points of an operation such as `shop-2.1:10`. Raises `UsageError` if the run has no such
    operation.
    """
    return by_journals.of_operation(story, name)


def of_record(story: Story, topic: str, partition: int, offset: int) -> list[Point]:
    """Return the points of a record: its writer, its transaction, its readers, and records that belong to it. Raises
    `UsageError` if the run has no such record.
    """
    if story.tables.without_journals:
        return by_logs.of_record(story, topic, partition, offset)
    return by_journals.of_record(story, topic, partition, offset)


def of_id(story: Story, transactional_id: str) -> list[Point]:
    """Return the points of a transactional id. Raises `UsageError` if the run does not have it."""
    of_id_by = by_logs.of_id if story.tables.without_journals else by_journals.of_id
    return of_id_by(story, transactional_id)


def of_fault(story: Story, number: int) -> list[Point]:
    """Return the points around a fault, counted from 1. Raises `UsageError` if the run has no such fault."""
    of_fault_by = by_logs.of_fault if story.tables.without_journals else by_journals.of_fault
    return of_fault_by(story, number)


@dataclass(frozen=True)
class TraceSubject:
    """The subject of a trace: a record, an operation, or a transactional id."""

    option: str  # record, op, id
    name: str
    record: tuple[TopicPartition, int] | None = None

    def points(self, story: Story) -> list[Point]:
        """Return its points in order of time. Raises `UsageError` if the run has no such subject."""
        if self.record is not None:
            (topic, partition), offset = self.record
            return of_record(story, topic, partition, offset)
        return (of_operation if self.option == "op" else of_id)(story, self.name)


def trace_commands(folder: Path, examples: Sequence[Example]) -> list[str]:
    """Return the trace command for each example, or an empty text if there is none."""
    if not str(folder).isprintable():
        return [""] * len(examples)
    return [
        f"fencepost trace {folder_argument(folder)} --{subject.option} {shlex.quote(subject.name)}"
        if subject
        else ""
        for subject in trace_subjects(RunTables(folder), examples)
    ]


def trace_subjects(tables: RunTables, examples: Sequence[Example]) -> list[TraceSubject | None]:
    """Return the subject for each example: an input, or else a record, an operation, or a transactional id.

    None: the tables of the run have no such row or cannot be read, so a trace would only report an error.
    """
    if not tables.exists("ops"):
        return [None] * len(examples)
    possible = [list(_subjects(example)) for example in examples]
    try:
        existing = _existing(tables, [subject for of_example in possible for subject in of_example])
    except UnreadableInput:
        return [None] * len(examples)
    return [next((subject for subject in of_example if subject in existing), None) for of_example in possible]


def folder_argument(folder: Path) -> str:
    """Return the folder as an argument that always names this run: not a link to the latest run, and not an
    option.
    """
    plain = folder.name and not folder.is_symlink() and not str(folder).startswith("-")
    return shlex.quote(str(folder if plain else folder.resolve()))


def _subjects(example: Example) -> Iterator[TraceSubject]:
    for part in (*example.inputs, *example.positions, *example.records):
        topic, partition, offset = (part.get(key) for key in ("topic", "partition", "offset"))
        number, at = integer(partition), integer(offset)
        if isinstance(topic, str) and number is not None and at is not None and at >= 0:
            yield from _if_safe(TraceSubject("record", f"{topic}/{number}@{at}", ((topic, number), at)))
    for operation in example.operations:
        yield from _if_safe(TraceSubject("op", str(operation.get("name") or "")))
    for facts in (example.facts, *(part.facts for part in (*example.operations, *example.records))):
        yield from _if_safe(TraceSubject("id", str(facts.get("transactional_id") or "")))


def _if_safe(subject: TraceSubject) -> Iterator[TraceSubject]:
    """Yield the subject, unless a shell or the command could misread its name."""
    name = subject.name
    if name and len(name) <= MOST_CHARACTERS and name.isprintable() and not name.startswith("-"):
        yield subject


def _existing(t: RunTables, possible: Sequence[TraceSubject]) -> set[TraceSubject]:
    """Return the subjects that the tables have rows for."""
    positions = {
        subject: (t.numbers[subject.record[0]], subject.record[1])
        for subject in possible
        if subject.record and subject.record[0] in t.numbers
    }
    existing_positions = t.existing_positions("records", set(positions.values()))
    if not t.without_journals:
        existing_positions |= t.existing_positions(
            "sends", set(positions.values())
        )  # acknowledged there, even if no reader read it
    existing = {subject for subject, position in positions.items() if position in existing_positions}
    for option, column in (("op", "name"), ("id", "transactional_id")):
        names = {subject.name for subject in possible if subject.option == option}
        if t.without_journals:
            names_in_table = (
                {row[column] for row in t.rows("transactions", **{column: names})}
                if option == "id"
                else set()
            )
        else:
            rows = t.rows("ops", **{column: names})
            names_in_table = {row[column] for row in rows if option == "op" or row["f"] in ("txn", "init")}
        existing |= {
            subject for subject in possible if subject.option == option and subject.name in names_in_table
        }
    return existing
