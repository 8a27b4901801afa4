"""Functions that build findings in Spark SQL: rows of the form `checkers.findings.form.FINDING`.

Expressions are text and not `Column` objects, because each part of a `Column` is a call into the JVM. The checks of one
verdict would make tens of thousands of such calls.
"""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from checkers.spark.joins import broadcast

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
    return spark.createDataFrame(
        pa.table({key: pa.array(column, pa.int64()) for key, column in zip(keys, columns, strict=True)})
    )
