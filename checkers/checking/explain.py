"""What an example holds: an object that a person can read without opening another file.

`record`, `records` (and `record_before`): a record: topic, partition, offset, value; and, where the log has
it, producer_id, epoch, fate, marker_offset; content (what it holds, as text, cut short) where a program of a user's
wrote it; op: the operation that was told of it, where there was one.

`operation`, `operations`, `writer`, `own_init`, `other_init`: an operation: op, name, journal, line,
end_line, process, stage, f, outcome, asked, transactional_id, call_ns, commit_ns, return_ns, error, fenced;
null ones left out.

`reader`: the operation that was given the record: the same, with role and n (which of its deliveries).

`input`: a place in an input topic: topic, partition, offset; and of a pipeline of a user's `due`: what it must lead to
[topic, slot, key, content]. `offsets`: offset commits: topic,
partition, committed. `claims`: topic, partition, first, next.

`passed_by`: the offset commit by which a group went past an input: its own topic, partition, offset,
producer_id, epoch, fate, marker_offset, what it committed, and the operation that made it.

Beside them stands what the checker adds in plain words and numbers (output name, group, why, ...). Whatever bears a
`tp` in a finding bears its topic and partition here.
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
RECORD_COLUMNS = ("value", "producer_id", "epoch", "fate", "marker_offset", "correlation_key")
KEPT = {"record": "content", "records": "content", "input": "due"}
"""What is told of whatever stands in that role, where a user's pipeline wrote or owes it."""
UNNAMED = "@"
"""Begins the name of a value that bears none: see `checkers.stored.attempts`."""
OPERATIONS = frozenset({"operation", "operations", "reader", "writer", "own_init", "other_init", "passed_by"})


def explain(
    s: Sources,
    t: Tables,
    rows: Mapping[tuple[int, str, bool], Findings],
    facts: Mapping[int, list[Fact]],
    contents: Collection[int] = (),
) -> None:
    """Add names and circumstances to the examples, in place. `contents`: the runs whose records are shown with what
    they hold.
    """
    places: set[tuple[int, ...]] = set()
    ops: set[tuple[int, ...]] = set()
    for (run, _, _), finding in rows.items():
        for thing in nested_objects(finding.examples):
            if thing.get("tp") is not None and thing.get("offset") is not None:
                places.add((run, thing["tp"], thing["offset"]))
            if thing.get("op") is not None:
                ops.add((run, thing["op"]))
    stored = lookup(
        t.log_entries.select(
            "run", "tp", "offset", F.get("acks", F.lit(0))["op"].alias("op"), *RECORD_COLUMNS
        ),
        ("run", "tp", "offset"),
        places,
    )
    ops |= {(key[0], row["op"]) for key, row in stored.items() if row["op"] is not None}
    shown = {place for place in places if place[0] in contents}
    held = _contents(s, shown) if shown else {}
    told = lookup(s["ops"].select("run", *OPERATION_COLUMNS), ("run", "op"), ops)
    names = {run: dict(_names(facts.get(run, ()))) for run, _, _ in rows}
    for (run, _, _), finding in rows.items():
        finding.examples = [
            _describe(example, "", run, stored, told, names[run], held) for example in finding.examples
        ]


def _contents(s: Sources, places: set[tuple[int, ...]]) -> dict[tuple[int, ...], dict[str, Any]]:
    """By place, what the record there holds, and what it must lead to, where a user's pipeline wrote or owes it."""
    by = ("run", "tp", "offset")
    held = lookup(s["records"].where("content is not null").select(*by, "content"), by, places)
    owed = (
        s["expected"]
        .where("content is not null")
        .groupBy(*by)
        .agg(F.expr("array_sort(collect_list(struct(topic, output_name as slot, key, content))) as due"))
    )
    found = lookup(owed, by, places)
    return {at: {**held.get(at, {}), **found.get(at, {})} for at in held.keys() | found.keys()}


def _names(facts: Iterable[Fact]) -> Iterable[tuple[int, tuple[str, int]]]:
    for kind, body in facts:
        if kind == "partition":
            yield body["tp"], (body["topic"], body["partition"])


def _describe(
    thing: Any,
    role: str,
    run: int,
    stored: Mapping[tuple[int, ...], dict[str, Any]],
    told: Mapping[tuple[int, ...], dict[str, Any]],
    names: Mapping[int, tuple[str, int]],
    contents: Mapping[tuple[int, ...], dict[str, Any]],
) -> Any:
    """One object of an example, with all that is known of it."""
    if isinstance(thing, list):
        return [_describe(each, role, run, stored, told, names, contents) for each in thing]
    if not isinstance(thing, dict):
        return thing
    body = {
        key: _describe(value, key, run, stored, told, names, contents)
        for key, value in thing.items()
        if key != "tp"
    }
    tp: int = -1 if thing.get("tp") is None else thing["tp"]
    offset: int = -1 if thing.get("offset") is None else thing["offset"]
    if tp in names:
        body = {"topic": names[tp][0], "partition": names[tp][1], **body}
    if str(body.get("value", "")).startswith(UNNAMED):
        del body["value"]
    at = stored.get((run, tp, offset))
    if (holds := contents.get((run, tp, offset))) and (kind := KEPT.get(role, "")) in holds:
        body[kind] = holds[kind]
    if at and role.startswith("record"):
        extra = {column: at[column] for column in (*RECORD_COLUMNS, "op") if at[column] is not None}
        body = {**extra, **body, **{key: value for key, value in body.items() if value is not None}}
    if role.startswith("record") and (writer := told.get((run, body.get("op", -1)))):
        body["operation"] = {
            column: writer[column] for column in OPERATION_COLUMNS if writer[column] is not None
        }
    if role in OPERATIONS and (operation := told.get((run, thing.get("op", -1)))):
        body = {
            **{column: operation[column] for column in OPERATION_COLUMNS if operation[column] is not None},
            **body,
        }
    return body
