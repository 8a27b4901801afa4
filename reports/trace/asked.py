"""Which `fencepost trace` tells the story of an example: no command is named that the run's tables cannot answer."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.common.errors import UnreadableInput
from harness.results.example import Example
from harness.results.wording import integer
from reports.trace.stored import Place, StoredTables

MOST_CHARACTERS = 200
"""Of what is named; anything longer is no name that Kafka or a worker has."""


@dataclass(frozen=True)
class _TraceSubject:
    """One way to ask: by a record, or by the name of an operation or of a transactional id."""

    option: str  # record, op, id
    name: str
    record: tuple[Place, int] | None = None


def trace_commands(folder: Path, examples: Sequence[Mapping[str, Any]]) -> list[str]:
    """For each example the command that tells what happened to it: by an input, else a record, an operation, or a
    transactional id. Empty for one of which the tables of the run in `folder` hold nothing, and where they cannot be
    read: the command would only say so.
    """
    if not (folder / "history" / "ops.parquet").is_file() or not str(folder).isprintable():
        return [""] * len(examples)
    ways = [list(_ways(Example(body))) for body in examples]
    try:
        known = _known(StoredTables(folder, 0.0), [one for each in ways for one in each])
    except UnreadableInput:
        return [""] * len(examples)
    chosen = (next((one for one in each if one in known), None) for each in ways)
    return [
        f"fencepost trace {_named(folder)} --{one.option} {shlex.quote(one.name)}" if one else ""
        for one in chosen
    ]


def _named(folder: Path) -> str:
    """The folder, so that it names this run for good: no link to the latest one, and no option."""
    plain = folder.name and not folder.is_symlink() and not str(folder).startswith("-")
    return shlex.quote(str(folder if plain else folder.resolve()))


def _ways(example: Example) -> Iterator[_TraceSubject]:
    for part in (*example.inputs, *example.records):
        topic, partition, offset = (part.body.get(key) for key in ("topic", "partition", "offset"))
        number, at = integer(partition), integer(offset)
        if isinstance(topic, str) and number is not None and at is not None and at >= 0:
            yield from _if_plain(_TraceSubject("record", f"{topic}/{number}@{at}", ((topic, number), at)))
    for part in example.operations:
        yield from _if_plain(_TraceSubject("op", str(part.body.get("name") or "")))
    for body in (example.rest, *(part.body for part in (*example.operations, *example.records))):
        yield from _if_plain(_TraceSubject("id", str(body.get("transactional_id") or "")))


def _if_plain(asked: _TraceSubject) -> Iterator[_TraceSubject]:
    """Nothing where a shell or the command itself would take the name for something else."""
    name = asked.name
    if name and len(name) <= MOST_CHARACTERS and name.isprintable() and not name.startswith("-"):
        yield asked


def _known(t: StoredTables, asked: Sequence[_TraceSubject]) -> set[_TraceSubject]:
    """Those of which the tables hold something."""
    places = {
        one: (t.numbers[one.record[0]], one.record[1])
        for one in asked
        if one.record and one.record[0] in t.numbers
    }
    there = t.existing_places("records", set(places.values()))
    if not t.without_journals:
        there |= t.existing_places(
            "sends", set(places.values())
        )  # acknowledged there, whether or not anybody read it
    known = {one for one, place in places.items() if place in there}
    for option, column in (("op", "name"), ("id", "transactional_id")):
        names = {one.name for one in asked if one.option == option}
        if t.without_journals:
            found = (
                {row[column] for row in t.rows("transactions", **{column: names})}
                if option == "id"
                else set()
            )
        else:
            rows = t.rows("ops", **{column: names})
            found = {row[column] for row in rows if option == "op" or row["f"] in ("txn", "init")}
        known |= {one for one in asked if one.option == option and one.name in found}
    return known
