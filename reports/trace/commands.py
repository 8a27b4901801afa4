"""Choose the `fencepost trace` command for an example. A command is offered only if the run's tables can answer
it.
"""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.common.errors import UnreadableInput
from harness.results.example import Example
from harness.results.wording import integer
from reports.run_tables import RunTables, TopicPartition

MOST_CHARACTERS = 200
"""Longer names are not names of Kafka or of a worker."""


@dataclass(frozen=True)
class _TraceSubject:
    """The subject of a trace: a record, an operation, or a transactional id."""

    option: str  # record, op, id
    name: str
    record: tuple[TopicPartition, int] | None = None


def trace_commands(folder: Path, examples: Sequence[Example]) -> list[str]:
    """Return the trace command for each example: for an input, or else a record, an operation, or a transactional id.

    The command is empty if the tables of the run have no such row or cannot be read, because it would only report an
    error.
    """
    tables = RunTables(folder)
    if not tables.exists("ops") or not str(folder).isprintable():
        return [""] * len(examples)
    subjects = [list(_subjects(example)) for example in examples]
    try:
        existing = _existing(
            tables, [subject for subjects_of_example in subjects for subject in subjects_of_example]
        )
    except UnreadableInput:
        return [""] * len(examples)
    first_existing = (
        next((subject for subject in subjects_of_example if subject in existing), None)
        for subjects_of_example in subjects
    )
    return [
        f"fencepost trace {_folder_argument(folder)} --{subject.option} {shlex.quote(subject.name)}"
        if subject
        else ""
        for subject in first_existing
    ]


def _folder_argument(folder: Path) -> str:
    """Return the folder as an argument that always names this run: not a link to the latest run, and not an
    option.
    """
    plain = folder.name and not folder.is_symlink() and not str(folder).startswith("-")
    return shlex.quote(str(folder if plain else folder.resolve()))


def _subjects(example: Example) -> Iterator[_TraceSubject]:
    for part in (*example.inputs, *example.positions, *example.records):
        topic, partition, offset = (part.get(key) for key in ("topic", "partition", "offset"))
        number, at = integer(partition), integer(offset)
        if isinstance(topic, str) and number is not None and at is not None and at >= 0:
            yield from _if_safe(_TraceSubject("record", f"{topic}/{number}@{at}", ((topic, number), at)))
    for operation in example.operations:
        yield from _if_safe(_TraceSubject("op", str(operation.get("name") or "")))
    for facts in (example.facts, *(part.facts for part in (*example.operations, *example.records))):
        yield from _if_safe(_TraceSubject("id", str(facts.get("transactional_id") or "")))


def _if_safe(subject: _TraceSubject) -> Iterator[_TraceSubject]:
    """Yield the subject, unless a shell or the command could misread its name."""
    name = subject.name
    if name and len(name) <= MOST_CHARACTERS and name.isprintable() and not name.startswith("-"):
        yield subject


def _existing(t: RunTables, subjects: Sequence[_TraceSubject]) -> set[_TraceSubject]:
    """Return the subjects that the tables have rows for."""
    positions = {
        subject: (t.numbers[subject.record[0]], subject.record[1])
        for subject in subjects
        if subject.record and subject.record[0] in t.numbers
    }
    existing_positions = t.existing_positions("records", set(positions.values()))
    if not t.without_journals:
        existing_positions |= t.existing_positions(
            "sends", set(positions.values())
        )  # acknowledged there, even if no reader read it
    existing = {subject for subject, position in positions.items() if position in existing_positions}
    for option, column in (("op", "name"), ("id", "transactional_id")):
        names = {subject.name for subject in subjects if subject.option == option}
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
            subject for subject in subjects if subject.option == option and subject.name in names_in_table
        }
    return existing
