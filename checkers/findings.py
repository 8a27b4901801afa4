"""The form of a finding, the rules and functions that make findings, and the words for an anomaly.

A finding is one row, the same for every anomaly, so that one job collects all findings.

A *rule* is a condition on one row of a shared table, and the finding that such a row makes. Most anomalies are rules.
All rules over one table are applied in one pass over it: see `apply_rules`. An anomaly that needs more than one row (a
join, a window) is a function of its checker instead, and makes its rows with `finding`. Such a checker may name
*suspects*: conditions on rows that few runs without anomalies have.

Expressions are text and not `Column` objects, because each part of a `Column` is a call into the JVM. The checks of one
verdict would make tens of thousands of such calls.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from checkers.spark.frames import broadcast, local_table
from harness.common.wording import join_words, number
from harness.results.example import Example

UNDECIDED_INFIX = "/undecided: "
"""In the name of a row that may be a finding: after the anomaly, and before why it is not decided."""
PERMITTED_SUFFIX = "/permitted"
"""Suffix of the name of a finding that the guarantee of its stage permits. Such findings are counted separately."""
FINDING = pa.schema(
    [
        ("run", pa.int64()),
        ("anomaly", pa.string()),
        ("absence", pa.bool_()),  # rests on something that is missing; dropped if evidence is gone
        ("position", pa.list_(pa.int64())),  # the order of examples, smallest first
        ("ops", pa.list_(pa.int64())),  # operations that it concerns; they join effects to causes
        (
            "detail",
            pa.string(),
        ),  # the example as JSON; `harness.results.example.KINDS` says what its keys hold
    ]
)
"""In `detail`, a part that names a partition has the field `tp`, and one that names an operation has the field `op`.
`checkers.checking.explain` adds their names.
"""


@dataclass
class Findings:
    """The findings of one anomaly in one run: either all that rest on absence, or all that do not."""

    count: int = 0
    examples: list[Example] = field(default_factory=list)
    positions: list[list[int]] = field(default_factory=list)  # of the examples, in the same order


NO_OPERATIONS = "cast(array() as array<bigint>)"
MAX_SHOWN = 20
"""The largest number of records or operations that an example shows."""


def columns(
    anomaly: str, *, order: Sequence[str], ops: str = NO_OPERATIONS, absence: str = "false", **detail: str
) -> dict[str, str]:
    """Return the columns of a finding except `run`: SQL by name.

    Args:
        anomaly: The name in SQL quotes, or the column that holds it.
        order: SQL for numbers by which examples are ordered. The first one decides.
        ops: SQL for the operations that the finding concerns.
        absence: SQL that is true if the finding rests on something that is missing.
        **detail: SQL by name, for what an example holds.
    """
    position = ", ".join(f"coalesce(cast({number} as bigint), -1)" for number in order)
    body = ", ".join(f"{expression} as {name}" for name, expression in detail.items())
    return {
        "anomaly": anomaly,
        "absence": absence,
        "position": f"array({position})",
        "ops": ops if ops == NO_OPERATIONS else f"coalesce({ops}, {NO_OPERATIONS})",
        "detail": f"to_json(struct({body}))",
    }


def finding(
    rows: DataFrame,
    anomaly: str,
    *,
    order: Sequence[str],
    ops: str = NO_OPERATIONS,
    absence: str = "false",
    **detail: str,
) -> DataFrame:
    """Return one finding for each row of `rows`, which has the column `run`.

    `anomaly` is a name. The other arguments are SQL over the columns of `rows`: see `columns`.
    """
    return findings(rows, f"'{anomaly}'", order=order, ops=ops, absence=absence, **detail)


def findings(
    rows: DataFrame,
    anomaly: str,
    *,
    order: Sequence[str],
    ops: str = NO_OPERATIONS,
    absence: str = "false",
    **detail: str,
) -> DataFrame:
    """Return one finding for each row of `rows`, as `finding` does. Here `anomaly` is the column that holds the
    name.
    """
    fields = columns(anomaly, order=order, ops=ops, absence=absence, **detail)
    return rows.selectExpr("run", *(f"{expression} as {name}" for name, expression in fields.items()))


def record_position(tp: str = "tp", offset: str = "offset") -> str:
    """Return SQL for an offset of a partition."""
    return f"struct({tp} as tp, {offset} as offset)"


def record(tp: str = "tp", offset: str = "offset", value: str = "value") -> str:
    """Return SQL for a record: its partition, its offset and its value."""
    return f"struct({tp} as tp, {offset} as offset, {value} as value)"


def records(array: str) -> str:
    """Return SQL for the first records of an array."""
    return f"transform(slice({array}, 1, {MAX_SHOWN}), r -> {record('r.tp', 'r.offset', 'r.value')})"


def offsets(array: str, committed: str = "committed") -> str:
    """Return SQL for an array of offset commits. `committed` is the field that holds the offset."""
    return f"transform({array}, c -> struct(c.tp as tp, c.{committed} as committed))"


def state(row: str = "") -> str:
    """Return SQL for a record of the transaction log. `row` is the prefix of its columns, such as `before.`."""
    fields = ", ".join(f"{row}{name} as {name}" for name in ("producer_id", "epoch", "state"))
    return f"struct(log_tp as tp, {row}log_offset as offset, {fields})"


def operation(op: str = "op") -> str:
    """Return SQL for an operation, by the column that holds its number."""
    return f"struct({op} as op)"


def operations(ops: str) -> str:
    """Return SQL for the first operations of an array of numbers."""
    return f"transform(slice(array_sort({ops}), 1, {MAX_SHOWN}), o -> struct(o as op))"


def log_transaction() -> str:
    """Return SQL for a transaction of the table `log_transactions`. An example shows it like an operation."""
    name = "concat('the transaction of ', transactional_id, ' (transaction log, offset ', log_offset, ')')"
    return f"struct({name} as name, transactional_id, producer_id)"


LOG_TRANSACTION_OPS = "array(-1 - log_offset - log_tp * 1099511627776L)"
"""SQL for a number that no operation has. By it, two findings about one transaction of the log are joined as effect and
cause.
"""


def reader() -> str:
    """Return SQL for the reader of a record: the operation, the index of the delivery in it, and the role."""
    return "struct(op as op, n as n, role as role)"


def jump_findings(
    jumps: DataFrame, anomaly: str, ops: str = "array_distinct(array(op_before, op))"
) -> DataFrame:
    """Return one finding for each row of `checkers.external_tables.ExternalTables.jumps`.

    `anomaly` is SQL for the name of the anomaly, or null if the row is no finding.
    """
    return findings(
        jumps.selectExpr("*", f"{anomaly} as anomaly").where("anomaly is not null"),
        "anomaly",
        order=["op", "key", "n"],
        ops=ops,
        records="array(struct(key as key, value_before as value, offset_before as offset), "
        "struct(key as key, value as value, offset as offset))",
        skipped="if(index > before, index - before - 1, null)",
        operations="array_distinct(array(struct(op_before as op), struct(op as op)))",
    )


def lookup(
    frame: DataFrame, keys: tuple[str, ...], wanted: set[tuple[int, ...]]
) -> dict[tuple[int, ...], dict[str, Any]]:
    """Return the rows whose columns `keys` have one of the wanted values, by these values."""
    if not wanted:
        return {}
    types = {field.name: field.dataType for field in frame.schema.fields}
    named = wanted_keys(frame.sparkSession, keys, wanted)
    named = named.select(*(F.col(key).cast(types[key]) for key in keys))
    rows = frame.join(broadcast(named), on=list(keys), how="inner").toArrow().to_pylist()
    return {tuple(row[key] for key in keys): row for row in rows}


def wanted_keys(spark: SparkSession, keys: tuple[str, ...], wanted: set[tuple[int, ...]]) -> DataFrame:
    """Return a table of the wanted values, with the columns `keys`. `wanted` must not be empty."""
    columns = list(zip(*sorted(wanted), strict=True))
    return local_table(
        spark,
        pa.table({key: pa.array(column, pa.int64()) for key, column in zip(keys, columns, strict=True)}),
    )


NO_FINDINGS = "cast(array() as array<struct<anomaly: string, absence: boolean, position: array<bigint>, "
NO_FINDINGS += "ops: array<bigint>, detail: string>>)"


@dataclass(frozen=True)
class Rule:
    """A condition on a row of one shared table, and the finding that such a row makes.

    All fields except `anomaly` and `table` are Spark SQL over the columns of the table.
    """

    anomaly: str  # its name
    table: str  # a field of `checkers.stored.tables.Tables`
    where: str  # the condition; null counts as false
    order: Sequence[str]  # numbers; the first one decides. All rules of one anomaly have the same length
    detail: dict[str, str]  # by name: what an example holds
    elements: str = ""  # a list: each element (`element`) for which the condition holds is a finding
    ops: str = NO_OPERATIONS  # the operations that the finding concerns
    absence: str = "false"  # true if the finding rests on something that is missing
    permitted: str = ""  # true if the guarantee of the stage permits the finding; empty: never

    @property
    def name(self) -> str:
        """SQL for the name of the anomaly, with a suffix if the finding is permitted."""
        if not self.permitted:
            return f"'{self.anomaly}'"
        return f"if({self.permitted}, '{self.anomaly}{PERMITTED_SUFFIX}', '{self.anomaly}')"

    @property
    def condition(self) -> str:
        """SQL that is true if the row has a finding."""
        return f"exists({self.elements}, element -> {self.where})" if self.elements else f"({self.where})"

    @property
    def findings(self) -> str:
        """SQL for the findings of a row: a list of structs."""
        fields = columns(self.name, order=self.order, ops=self.ops, absence=self.absence, **self.detail)
        finding = "named_struct(" + ", ".join(f"'{name}', {value}" for name, value in fields.items()) + ")"
        if not self.elements:
            return f"if({self.where}, array({finding}), {NO_FINDINGS})"
        matches = f"filter({self.elements}, element -> {self.where})"
        return f"coalesce(transform({matches}, element -> {finding}), {NO_FINDINGS})"


@dataclass(frozen=True)
class Suspect:
    """A condition on a row of a shared table. If no row matches a suspect of a checker, its function would find
    nothing, so it is not called. See SUSPECTS in the files of `checkers.anomalies`.
    """

    table: str  # a field of `checkers.stored.tables.Tables`
    where: str  # Spark SQL; null counts as false


def apply_rules(table: DataFrame, rules: Sequence[Rule]) -> DataFrame:
    """Return all findings of the rules over one table, in one pass. The conditions first drop most rows."""
    rows = table.where(" or ".join(rule.condition for rule in rules))
    return rows.selectExpr("run", f"inline(concat({', '.join(rule.findings for rule in rules)}))")


def join_shown(parts: Sequence[str], most: int = 4) -> str:
    """Return `a, b and c` for parts of an example. If there may be more than it stores, add `of the first 20`."""
    return join_words(parts, most) + (f" of the first {len(parts)}" if len(parts) >= MAX_SHOWN else "")


@dataclass(frozen=True)
class AnomalyWording:
    """The words for one anomaly. `WORDING` in a file of `checkers/anomalies` maps each name that it finds to one."""

    singular: str  # completes "1 ..."
    plural: str  # completes "3 ..."
    meaning: str  # the meaning of the anomaly, in one or two sentences
    sentence: Callable[[Example], str]
    """Describes an example in one sentence, without a full stop. If the example lacks something, the sentence leaves it
    out or calls it unknown."""

    def describe_count(self, count: int) -> str:
        """Return the count with the noun, such as `3 records are stored more than once`."""
        return f"{number(count)} {self.singular if count == 1 else self.plural}"


_OPERATION = frozenset({"op", "process", "f", "outcome", "invoked", "invoke_ns", "complete_ns"})


def example_line(example: Example) -> str:
    """Describe an example of an external history in one line: its fields, or the steps of a cycle.

    The text is not escaped yet.
    """
    if isinstance(steps := example.facts.get("steps"), list):
        return "; ".join(map(str, steps))
    return "; ".join(f"{name.replace('_', ' ')} {_thing(value)}" for name, value in example.as_json().items())


def _thing(value: Any) -> str:
    """Return for example `T6 (process 0, ok) "x" 3 @ 1012`: an operation by its line, a record by key, value and
    offset.
    """
    if isinstance(value, list):
        return ", ".join(map(_thing, value))
    if not isinstance(value, Mapping):
        return json.dumps(value, ensure_ascii=False)
    words = []
    if "op" in value:
        details = [f"process {value['process']}"] if "process" in value else []
        words.append(f"T{value['op']} ({', '.join([*details, str(value.get('outcome', 'unknown'))])})")
    words += [json.dumps(value[name], ensure_ascii=False) for name in ("key", "value") if name in value]
    if "offset" in value:
        words.append(f"@ {value['offset']}")
    rest = value.keys() - _OPERATION - {"key", "value", "offset"}
    words += [f"{name.replace('_', ' ')} {_thing(value[name])}" for name in value if name in rest]
    return " ".join(words)
