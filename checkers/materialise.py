"""The one place where Spark runs: all findings of all runs, counted, and the first of them kept.

The order of the examples is stated by each checker (`position`, smallest first; then the detail's text). An
example is an object that a person can read without opening another file. Its fields:

`record`, `records`   a record: topic, partition, offset, value; and, where the log has it, producer_id, epoch, fate,
                      marker_offset; `op`: the operation that was told of it, where there was one
`operation(s)`        an operation: op, name, journal, line, end_line, process, stage, f, outcome, asked, transactional_id,
                      call_ns, commit_ns, return_ns, error, fenced
`reader`              the operation that was given the record: the same, with role and n (which of its deliveries)
`input`               a place in an input topic: topic, partition, offset
`offset(s)`, `claims` offset commits: topic, partition, committed; ranges: topic, partition, first, next

and what the checker adds beside them in plain words and numbers (slot, group, why, ...). Whatever bears a `tp`
bears its topic and partition too.
"""

import json
import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from checkers.evidence import evidence
from checkers.registry import Checker
from checkers.sources import Sources
from checkers.tables import Tables, keep

log = logging.getLogger(__name__)

SPARK_ERRORS = (PySparkException, Py4JError)
OPERATION_COLUMNS = (
    "op", "name", "journal", "line", "end_line", "process", "stage", "f", "outcome", "asked", "transactional_id",
    "call_ns", "commit_ns", "return_ns", "error", "fenced",
)  # fmt: skip
RECORD_COLUMNS = ("producer_id", "epoch", "fate", "marker_offset")
OPERATIONS = frozenset({"operation", "operations", "reader", "own_init", "other_init"})


@dataclass
class Finding:
    """The findings of one anomaly in one run that rest alike on presence or on absence."""

    count: int = 0
    examples: list[dict[str, Any]] = field(default_factory=list)
    positions: list[list[int]] = field(default_factory=list)


@dataclass
class Materialised:
    """All that the job brought home."""

    findings: dict[tuple[int, str, bool], Finding]  # by run, anomaly, absence
    facts: dict[int, list[tuple[str, str]]]  # by run: kind and detail of `evidence`
    crashed: dict[str, str]  # by anomaly: the first line of what went wrong
    caused: set[
        tuple[int, str, str]
    ]  # run, effect, cause: every finding of the effect shares an operation with it


def materialise(s: Sources, t: Tables, checkers: Sequence[Checker], examples: int) -> Materialised:
    """Run all checkers in one job; if that fails, one by one, so that the others still count."""
    crashed: dict[str, str] = {}
    found = {checker: frame for checker in checkers if (frame := _build(checker, t, crashed)) is not None}
    facts = _facts(evidence(s, t))
    try:
        return _together(s, t, list(found.values()), facts, crashed, examples)
    except SPARK_ERRORS as error:
        log.warning("the job of all checkers failed, so they run one by one: %s", first_line(error))
    sound = [frame for checker, frame in found.items() if _runs(checker, frame, crashed)]
    return _together(s, t, sound, facts, crashed, examples)


def _build(checker: Checker, t: Tables, crashed: dict[str, str]) -> DataFrame | None:
    try:
        return checker.find(t)
    except SPARK_ERRORS as error:
        _note(checker, error, crashed)
        return None


def _runs(checker: Checker, frame: DataFrame, crashed: dict[str, str]) -> bool:
    try:
        frame.groupBy("anomaly").count().toArrow()
    except SPARK_ERRORS as error:
        _note(checker, error, crashed)
        return False
    return True


def _note(checker: Checker, error: Exception, crashed: dict[str, str]) -> None:
    log.error("checker %s crashed", checker.module, exc_info=error)
    for anomaly in checker.anomalies:
        crashed[anomaly] = f"the check crashed: {first_line(error)}"


def first_line(error: BaseException) -> str:
    """The first line of what an error says, or its name."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def _facts(frame: DataFrame) -> DataFrame:
    """Facts in the shape of what `_together` collects."""
    return frame.select(
        "run", "kind", F.lit(None).cast("boolean").alias("absence"), F.lit(None).cast("bigint").alias("count"),
        F.lit(None).cast("array<bigint>").alias("position"), "detail",
    )  # fmt: skip


def _together(
    s: Sources, t: Tables, found: list[DataFrame], facts: DataFrame, crashed: dict[str, str], examples: int
) -> Materialised:
    if not found:
        return Materialised({}, _gather(facts.toArrow())[1], crashed, set())
    findings = keep(reduce(DataFrame.unionByName, found))
    by = ["run", "anomaly", "absence"]
    counts = findings.groupBy(*by).agg(F.count(F.lit(1)).alias("count"))
    ranked = F.row_number().over(Window.partitionBy(*by).orderBy("position", "detail"))
    first = findings.withColumn("rank", ranked).where(F.col("rank") <= examples)
    collected = (
        facts.unionByName(counts.withColumnRenamed("anomaly", "kind"), allowMissingColumns=True)
        .unionByName(
            first.select("run", F.col("anomaly").alias("kind"), "absence", "position", "detail"),
            allowMissingColumns=True,
        )
        .toArrow()
    )
    rows, told = _gather(collected)
    caused = _caused(findings) if len({(run, name) for run, name, _ in rows}) > 1 else set()
    _explain(s, t, rows, told)
    return Materialised(rows, told, crashed, caused)


def _gather(table: pa.Table) -> tuple[dict[tuple[int, str, bool], Finding], dict[int, list[tuple[str, str]]]]:
    """Sort the collected rows: counts, examples, facts."""
    findings: dict[tuple[int, str, bool], Finding] = defaultdict(Finding)
    facts: dict[int, list[tuple[str, str]]] = defaultdict(list)
    for run, kind, absence, count, position, detail in zip(
        *(c.to_pylist() for c in table.columns), strict=True
    ):
        if absence is None:
            facts[run].append((kind, detail))
        elif count is not None:
            findings[run, kind, absence].count = count
        else:
            findings[run, kind, absence].positions.append(position)
            findings[run, kind, absence].examples.append(json.loads(detail))
    for finding in findings.values():
        order = sorted(
            range(len(finding.positions)),
            key=lambda at: (finding.positions[at], json.dumps(finding.examples[at])),
        )
        finding.examples = [finding.examples[at] for at in order]
        finding.positions = [finding.positions[at] for at in order]
    return dict(findings), dict(facts)


def _caused(findings: DataFrame) -> set[tuple[int, str, str]]:
    """Which anomaly follows from which: every finding of the effect shares an operation with one of the cause."""
    numbered = findings.withColumn("id", F.monotonically_increasing_id())
    touched = numbered.select("run", "anomaly", "id", F.explode("ops").alias("op")).where("op is not null")
    causes = touched.select("run", "op", F.col("anomaly").alias("cause")).distinct()
    shared = (
        touched.join(causes, on=["run", "op"], how="inner")
        .where("anomaly != cause")
        .groupBy("run", "anomaly", "cause")
        .agg(F.countDistinct("id").alias("shared"))
    )
    counts = findings.groupBy("run", "anomaly").agg(F.count(F.lit(1)).alias("all"))
    rows = shared.join(counts, on=["run", "anomaly"], how="inner").where(F.col("shared") == F.col("all"))
    table = rows.select("run", "anomaly", "cause").toArrow()
    return set(zip(*(column.to_pylist() for column in table.columns), strict=True))


def _explain(
    s: Sources,
    t: Tables,
    rows: Mapping[tuple[int, str, bool], Finding],
    facts: Mapping[int, list[tuple[str, str]]],
) -> None:
    """Add names and circumstances to the examples, in place."""
    places: set[tuple[int, int, int]] = set()
    ops: set[tuple[int, int]] = set()
    for (run, _, _), finding in rows.items():
        for thing in _objects(finding.examples):
            if thing.get("tp") is not None and thing.get("offset") is not None:
                places.add((run, thing["tp"], thing["offset"]))
            if thing.get("op") is not None:
                ops.add((run, thing["op"]))
    if not places and not ops:
        return
    stored = _lookup(
        t.positions.select("run", "tp", "offset", F.get("acks", F.lit(0))["op"].alias("op"), *RECORD_COLUMNS),
        ("run", "tp", "offset"),
        places,
    )
    ops |= {(key[0], row["op"]) for key, row in stored.items() if row["op"] is not None}
    told = _lookup(s["ops"].select("run", *OPERATION_COLUMNS), ("run", "op"), ops)
    names = {run: dict(_names(facts.get(run, ()))) for run, _, _ in rows}
    for (run, _, _), finding in rows.items():
        finding.examples = [
            _describe(example, "", run, stored, told, names[run]) for example in finding.examples
        ]


def _names(facts: Iterable[tuple[str, str]]) -> Iterable[tuple[int, tuple[str, int]]]:
    for kind, detail in facts:
        if kind == "partition":
            body = json.loads(detail)
            yield body["tp"], (body["topic"], body["partition"])


def _objects(thing: Any) -> Iterable[dict[str, Any]]:
    """Every object in an example, however deep."""
    if isinstance(thing, dict):
        yield thing
        for value in thing.values():
            yield from _objects(value)
    elif isinstance(thing, list):
        for value in thing:
            yield from _objects(value)


def _lookup(
    frame: DataFrame, keys: tuple[str, ...], wanted: set[tuple[int, ...]]
) -> dict[tuple[int, ...], dict[str, Any]]:
    """The rows of a table that bear the wanted keys."""
    if not wanted:
        return {}
    spark: SparkSession = frame.sparkSession
    types = {field.name: field.dataType for field in frame.schema.fields}
    columns = list(zip(*sorted(wanted), strict=True))
    asked = spark.createDataFrame(
        pa.table({key: pa.array(column, pa.int64()) for key, column in zip(keys, columns, strict=True)})
    )
    asked = asked.select(*(F.col(key).cast(types[key]) for key in keys))
    rows = frame.join(F.broadcast(asked), on=list(keys), how="inner").toArrow().to_pylist()
    return {tuple(row[key] for key in keys): row for row in rows}


def _describe(
    thing: Any,
    role: str,
    run: int,
    stored: Mapping[tuple[int, ...], dict[str, Any]],
    told: Mapping[tuple[int, ...], dict[str, Any]],
    names: Mapping[int, tuple[str, int]],
) -> Any:
    """One object of an example, with all that is known of it."""
    if isinstance(thing, list):
        return [_describe(each, role, run, stored, told, names) for each in thing]
    if not isinstance(thing, dict):
        return thing
    body = {
        key: _describe(value, key, run, stored, told, names) for key, value in thing.items() if key != "tp"
    }
    tp = thing.get("tp")
    if tp in names:
        body = {"topic": names[tp][0], "partition": names[tp][1], **body}
    at = (
        stored.get((run, tp, thing.get("offset")))
        if tp is not None and thing.get("offset") is not None
        else None
    )
    if at and role.startswith("record"):
        extra = {column: at[column] for column in (*RECORD_COLUMNS, "op") if at[column] is not None}
        body = {**extra, **body, **{key: value for key, value in body.items() if value is not None}}
    if role in OPERATIONS and (operation := told.get((run, thing.get("op", -1)))):
        body = {
            **{column: operation[column] for column in OPERATION_COLUMNS if operation[column] is not None},
            **body,
        }
    return body
