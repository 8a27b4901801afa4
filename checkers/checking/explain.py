"""Complete the examples of findings, so that a person can read them without opening another file.

These are the facts of each kind of part (`harness.results.example.KINDS` lists the keys of each kind):

- `Record`: topic, partition, offset, value; from the log producer_id, epoch, fate, marker_offset; in a custom pipeline
  its content (as text, cut short); op: the operation whose send was acknowledged there; operation: this operation
- `Operation`: op, name, journal, line, end_line, process, stage, f, outcome, asked, transactional_id, call_ns,
  commit_ns, return_ns, error, fenced; without nulls. A reader also has role and n (the number of the delivery)
- `Input`: topic, partition, offset; in a custom pipeline also `due`: its expected outputs [topic, slot (the output
  name), key, content]
- `Offset`: topic, partition, and committed, or for a range first and next
- `PassingCommit`: its own topic, partition, offset, producer_id, epoch, fate, marker_offset, the offset that it
  committed, and the facts of its operation

Checkers add other words and numbers (output name, group, why, ...). Wherever a part has a `tp`, it gets the topic and
the partition.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from pyspark.sql import functions as F

from checkers.findings import Findings, lookup
from checkers.gaps.rule import Fact
from checkers.stored.sources import Sources
from checkers.stored.tables import Tables
from harness.results.example import Input, Operation, Part, PassingCommit, Record

OPERATION_COLUMNS = (
    "op", "name", "journal", "line", "end_line", "process", "stage", "f", "outcome", "asked",
    "transactional_id", "call_ns", "commit_ns", "return_ns", "error", "fenced",
)  # fmt: skip
RECORD_COLUMNS = ("value", "producer_id", "epoch", "fate", "marker_offset", "about")
"""The columns of a log entry that an example shows; `about` is its correlation key."""
NO_VALUE = "@"
"""Prefix of the name of a record without a value: see `checkers.stored.operations`."""
GONE = "gone_record"
"""The label of records that the log lacks. Its entries at their offsets belong to other records."""
Key = tuple[int, ...]
Row = dict[str, Any]


def explain(
    s: Sources,
    tables: Tables,
    rows: Mapping[tuple[int, str, bool], Findings],
    facts: Mapping[int, list[Fact]],
    content_runs: Collection[int] = (),
) -> None:
    """Add records, operations, topics and partitions to the examples, in place.

    Args:
        rows: the findings by run, anomaly and absence
        content_runs: the runs whose records are shown with their content
    """
    parts = [
        (run, part)
        for (run, _, _), finding in rows.items()
        for example in finding.examples
        for part in example.parts()
    ]
    positions: set[Key] = {(run, *position) for run, part in parts if (position := _position(part))}
    ops: set[Key] = {(run, part.facts["op"]) for run, part in parts if part.get("op") is not None}
    stored = lookup(
        tables.log_entries.withColumnRenamed("correlation_key", "about").select(
            "run", "tp", "offset", F.get("acks", F.lit(0))["op"].alias("op"), *RECORD_COLUMNS
        ),
        ("run", "tp", "offset"),
        positions,
    )
    ops |= {(key[0], row["op"]) for key, row in stored.items() if row["op"] is not None}
    operations = {
        key: _without_nulls(row, OPERATION_COLUMNS)
        for key, row in lookup(s["ops"].select("run", *OPERATION_COLUMNS), ("run", "op"), ops).items()
    }
    names = {run: dict(_names(facts.get(run, ()))) for run, _, _ in rows}
    contents = _contents(s, {position for position in positions if position[0] in content_runs})
    for run, part in parts:
        position = (run, *(_position(part) or ()))
        _add_content(part, contents.get(position, {}))
        if isinstance(part, Record) and not isinstance(part, PassingCommit) and part.label != GONE:
            _add_log_entry(part, stored.get(position, {}))
        operation = operations.get((run, part.get("op")), {})
        if isinstance(part, Operation | PassingCommit):
            part.facts = {**operation, **part.facts}
        elif isinstance(part, Record) and operation:
            part.facts["operation"] = Operation("operation", dict(operation))
        _name_partition(part, names[run])
        if str(part.get("value")).startswith(NO_VALUE):
            del part.facts["value"]


def _position(part: Part) -> tuple[int, int] | None:
    tp, offset = part.get("tp"), part.get("offset")
    return None if tp is None or offset is None else (tp, offset)


def _without_nulls(row: Row, columns: Iterable[str]) -> Row:
    return {column: row[column] for column in columns if row[column] is not None}


def _contents(s: Sources, positions: set[Key]) -> dict[Key, Row]:
    """By position, the content of the record and its expected outputs, for custom pipelines."""
    if not positions:
        return {}
    by = ("run", "tp", "offset")
    contents = lookup(s["records"].where("content is not null").select(*by, "content"), by, positions)
    expected = (
        s["expected"]
        .where("content is not null")
        .groupBy(*by)
        .agg(F.expr("array_sort(collect_list(struct(topic, output_name as slot, key, content))) as due"))
    )
    due = lookup(expected, by, positions)
    return {at: {**contents.get(at, {}), **due.get(at, {})} for at in contents.keys() | due.keys()}


def _names(facts: Iterable[Fact]) -> Iterable[tuple[int, tuple[str, int]]]:
    for kind, body in facts:
        if kind == "partition":
            yield body["tp"], (body["topic"], body["partition"])


def _add_content(part: Part, contents: Row) -> None:
    key = "due" if isinstance(part, Input) else "content"
    if isinstance(part, Input | Record) and key in contents:
        part.facts[key] = contents[key]


def _add_log_entry(record: Record, entry: Row) -> None:
    """Add what the log says about a record. Facts of the finding that are not null take precedence."""
    if entry:
        finding_facts = {name: fact for name, fact in record.facts.items() if fact is not None}
        record.facts = {**_without_nulls(entry, (*RECORD_COLUMNS, "op")), **record.facts, **finding_facts}


def _name_partition(part: Part, names: Mapping[int, tuple[str, int]]) -> None:
    """Replace the number of the partition in the run by its topic and its number in the topic."""
    tp = part.facts.pop("tp", None)
    if tp in names:
        topic, partition = names[tp]
        part.facts = {"topic": topic, "partition": partition, **part.facts}
