"""What makes findings, rows of the form `checkers.findings.form.FINDING`, of a checker's rows."""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F


def finding(
    found: DataFrame,
    anomaly: str | Column,
    *,
    order: Sequence[str | Column],
    ops: Column | None = None,
    absence: Column | bool = False,
    **detail: Column,
) -> DataFrame:
    """One row of findings for each row of `found`, which has `run`. `order`: numbers, the first decides.

    `anomaly`: its name, or the column that has it.
    """
    nobody = F.array().cast("array<bigint>")
    columns = [F.col(column) if isinstance(column, str) else column for column in order]
    return found.select(
        "run",
        (F.lit(anomaly) if isinstance(anomaly, str) else anomaly).alias("anomaly"),
        (absence if isinstance(absence, Column) else F.lit(absence)).alias("absence"),
        F.array(*(F.coalesce(column.cast("bigint"), F.lit(-1)) for column in columns)).alias("position"),
        (F.coalesce(ops, nobody) if ops is not None else nobody).alias("ops"),
        F.to_json(F.struct(*(column.alias(name) for name, column in detail.items()))).alias("detail"),
    )


def record(tp: str, offset: str, value: str | Column) -> Column:
    """A record, by its place and the name of its value."""
    named = F.col(value) if isinstance(value, str) else value
    return F.struct(F.col(tp).alias("tp"), F.col(offset).alias("offset"), named.alias("value"))


def state(row: str = "") -> Column:
    """A record of the transaction log, by its place; `row`: the column that holds it, as `before.`."""
    place = F.col("log_tp").alias("tp"), F.col(f"{row}log_offset").alias("offset")
    return F.struct(*place, *(F.col(f"{row}{one}").alias(one) for one in ("producer_id", "epoch", "state")))


def operation(op: str = "op") -> Column:
    """An operation, by its number."""
    return F.struct(F.col(op).alias("op"))


def operations(ops: str) -> Column:
    """The first of several operations, by their numbers."""
    return F.transform(F.slice(F.array_sort(ops), 1, 20), lambda op: F.struct(op.alias("op")))


def jump(jumps: DataFrame, anomaly: Column) -> DataFrame:
    """One row of findings for each row of `checkers.external.jumps.make_jumps` for which `anomaly` names one."""
    return finding(
        jumps.withColumn("anomaly", anomaly).where("anomaly is not null"),
        F.col("anomaly"),
        order=["op", "key", "n"],
        ops=F.array_distinct(F.array("op_before", "op")),
        records=F.array(
            F.struct("key", F.col("value_before").alias("value"), F.col("offset_before").alias("offset")),
            F.struct("key", "value", "offset"),
        ),
        skipped=F.when(F.col("index") > F.col("before"), F.col("index") - F.col("before") - 1),
        operations=F.array_distinct(F.array(F.struct(F.col("op_before").alias("op")), F.struct("op"))),
    )
