"""Complete the examples of findings, so that a person can read them without opening another file.

- `record`, `records`, `record_before`: a record: topic, partition, offset, value; from the log producer_id, epoch,
  fate, marker_offset; of a custom pipeline content (as text, cut short); op: the operation whose send was acknowledged
  there
- `operation`, `operations`, `writer`, `own_init`, `other_init`: an operation: op, name, journal, line, end_line,
  process, stage, f, outcome, asked, transactional_id, call_ns, commit_ns, return_ns, error, fenced; without nulls
- `reader`: the operation that received the record: the same, with role and n (the number of the delivery)
- `input`: topic, partition and offset of an input; of a custom pipeline also `due`: its expected outputs [topic, slot,
  key, content]
- `offsets`: offset commits: topic, partition, committed
- `claims`: input ranges: topic, partition, first, next
- `passed_by`: the offset commit by which a group passed an input: its own topic, partition, offset, producer_id, epoch,
  fate, marker_offset, what it committed, and its operation

Checkers add words and numbers of their own (output name, group, why, ...). Wherever a finding has a `tp`, the example
has topic and partition.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from pyspark.sql import functions as F

from checkers.checking.evidence import Fact
from checkers.findings.form import Findings
from checkers.findings.lookup import lookup, nested_objects
from checkers.stored.sources import Sources
from checkers.stored.tables import Tables

OPERATION_COLUMNS = (
    "op", "name", "journal", "line", "end_line", "process", "stage", "f", "outcome", "asked",
    "transactional_id", "call_ns", "commit_ns", "return_ns", "error", "fenced",
)  # fmt: skip
RECORD_COLUMNS = ("value", "producer_id", "epoch", "fate", "marker_offset", "about")
"""The columns of a log entry that an example shows; `about` is its correlation key."""
CONTENT_OF = {"record": "content", "records": "content", "input": "due"}
"""For each role in an example: the content of a custom pipeline that is added to it."""
NO_VALUE = "@"
"""Prefix of the name of a record without a value: see `checkers.stored.attempts`."""
OPERATIONS = frozenset({"operation", "operations", "reader", "writer", "own_init", "other_init", "passed_by"})


def explain(
    s: Sources,
    t: Tables,
    rows: Mapping[tuple[int, str, bool], Findings],
    facts: Mapping[int, list[Fact]],
    content_runs: Collection[int] = (),
) -> None:
    """Add records, operations, topics and partitions to the examples, in place.

    Args:
        rows: the findings by run, anomaly and absence
        content_runs: the runs whose records are shown with their content
    """
    positions: set[tuple[int, ...]] = set()
    ops: set[tuple[int, ...]] = set()
    for (run, _, _), finding in rows.items():
        for item in nested_objects(finding.examples):
            if item.get("tp") is not None and item.get("offset") is not None:
                positions.add((run, item["tp"], item["offset"]))
            if item.get("op") is not None:
                ops.add((run, item["op"]))
    stored = lookup(
        t.log_entries.withColumnRenamed("correlation_key", "about").select(
            "run", "tp", "offset", F.get("acks", F.lit(0))["op"].alias("op"), *RECORD_COLUMNS
        ),
        ("run", "tp", "offset"),
        positions,
    )
    ops |= {(key[0], row["op"]) for key, row in stored.items() if row["op"] is not None}
    shown_positions = {position for position in positions if position[0] in content_runs}
    contents = _contents(s, shown_positions) if shown_positions else {}
    operations = lookup(s["ops"].select("run", *OPERATION_COLUMNS), ("run", "op"), ops)
    names = {run: dict(_names(facts.get(run, ()))) for run, _, _ in rows}
    for (run, _, _), finding in rows.items():
        finding.examples = [
            _describe(example, "", run, stored, operations, names[run], contents)
            for example in finding.examples
        ]


def _contents(s: Sources, positions: set[tuple[int, ...]]) -> dict[tuple[int, ...], dict[str, Any]]:
    """By position, the content of the record and its expected outputs, for custom pipelines."""
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


def _describe(
    item: Any,
    role: str,
    run: int,
    stored: Mapping[tuple[int, ...], dict[str, Any]],
    operations: Mapping[tuple[int, ...], dict[str, Any]],
    names: Mapping[int, tuple[str, int]],
    contents: Mapping[tuple[int, ...], dict[str, Any]],
) -> Any:
    """Add to an object of an example all that is known of it."""
    if isinstance(item, list):
        return [_describe(element, role, run, stored, operations, names, contents) for element in item]
    if not isinstance(item, dict):
        return item
    body = {
        key: _describe(value, key, run, stored, operations, names, contents)
        for key, value in item.items()
        if key != "tp"
    }
    tp: int = -1 if item.get("tp") is None else item["tp"]
    offset: int = -1 if item.get("offset") is None else item["offset"]
    if tp in names:
        body = {"topic": names[tp][0], "partition": names[tp][1], **body}
    if str(body.get("value", "")).startswith(NO_VALUE):
        del body["value"]
    entry = stored.get((run, tp, offset))
    if (content := contents.get((run, tp, offset))) and (kind := CONTENT_OF.get(role, "")) in content:
        body[kind] = content[kind]
    if entry and role.startswith("record"):
        extra = {column: entry[column] for column in (*RECORD_COLUMNS, "op") if entry[column] is not None}
        body = {**extra, **body, **{key: value for key, value in body.items() if value is not None}}
    if role.startswith("record") and (writer := operations.get((run, body.get("op", -1)))):
        body["operation"] = {
            column: writer[column] for column in OPERATION_COLUMNS if writer[column] is not None
        }
    if role in OPERATIONS and (operation := operations.get((run, item.get("op", -1)))):
        body = {
            **{column: operation[column] for column in OPERATION_COLUMNS if operation[column] is not None},
            **body,
        }
    return body
