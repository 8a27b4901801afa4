"""How findings are built, in Spark SQL: rows of the form `checkers.findings.form.FINDING`.

An expression is text, and not a `Column`: each part of a `Column` is a call into the JVM, and a judgement
that builds all of its checks that way makes tens of thousands of them.
"""

from collections.abc import Sequence

from pyspark.sql import DataFrame

NO_OPERATIONS = "cast(array() as array<bigint>)"
MAX_SHOWN = 20
"""How many records or operations an example shows."""


def columns(
    anomaly: str, *, order: Sequence[str], ops: str = NO_OPERATIONS, absence: str = "false", **detail: str
) -> dict[str, str]:
    """The columns of a finding but `run`, by name. `order`: numbers, the first decides. `anomaly`: its name as
    SQL has it, in quotes, or the column that has it.
    """
    position = ", ".join(f"coalesce(cast({one} as bigint), -1)" for one in order)
    body = ", ".join(f"{expression} as {name}" for name, expression in detail.items())
    return {
        "anomaly": anomaly,
        "absence": absence,
        "position": f"array({position})",
        "ops": ops if ops == NO_OPERATIONS else f"coalesce({ops}, {NO_OPERATIONS})",
        "detail": f"to_json(struct({body}))",
    }


def finding(
    found: DataFrame,
    anomaly: str,
    *,
    order: Sequence[str],
    ops: str = NO_OPERATIONS,
    absence: str = "false",
    **detail: str,
) -> DataFrame:
    """One row of findings for each row of `found`, which has `run`; see `columns`. All but `anomaly`, which is
    a name, is SQL over the columns of `found`.
    """
    return findings(found, f"'{anomaly}'", order=order, ops=ops, absence=absence, **detail)


def findings(
    found: DataFrame,
    anomaly: str,
    *,
    order: Sequence[str],
    ops: str = NO_OPERATIONS,
    absence: str = "false",
    **detail: str,
) -> DataFrame:
    """As `finding`, where `anomaly` is the column that has the name."""
    told = columns(anomaly, order=order, ops=ops, absence=absence, **detail)
    return found.selectExpr("run", *(f"{expression} as {name}" for name, expression in told.items()))


def record_place(tp: str = "tp", offset: str = "offset") -> str:
    """A place in a partition."""
    return f"struct({tp} as tp, {offset} as offset)"


def record(tp: str = "tp", offset: str = "offset", value: str = "value") -> str:
    """A record, by its place and the name of its value."""
    return f"struct({tp} as tp, {offset} as offset, {value} as value)"


def records(of: str) -> str:
    """The first of several records."""
    return f"transform(slice({of}, 1, {MAX_SHOWN}), r -> {record('r.tp', 'r.offset', 'r.value')})"


def offsets(of: str, committed: str = "committed") -> str:
    """Offset commits, by their partitions; `committed`: the field that holds the offset."""
    return f"transform({of}, c -> struct(c.tp as tp, c.{committed} as committed))"


def state(row: str = "") -> str:
    """A record of the transaction log, by its place; `row`: the column that holds it, as `before.`."""
    told = ", ".join(f"{row}{one} as {one}" for one in ("producer_id", "epoch", "state"))
    return f"struct(log_tp as tp, {row}log_offset as offset, {told})"


def operation(op: str = "op") -> str:
    """An operation, by its number."""
    return f"struct({op} as op)"


def operations(ops: str) -> str:
    """The first of several operations, by their numbers."""
    return f"transform(slice(array_sort({ops}), 1, {MAX_SHOWN}), o -> struct(o as op))"


def log_transaction() -> str:
    """A transaction of the table `log_transactions`, in the place of an operation."""
    name = "concat('the transaction of ', transactional_id, ' (transaction log, offset ', log_offset, ')')"
    return f"struct({name} as name, transactional_id, producer_id)"


LOG_TRANSACTION_OPS = "array(-1 - log_offset - log_tp * 1099511627776L)"
"""A number that no operation has: by it an effect is joined to its cause within one transaction."""


def reader() -> str:
    """The operation that was given a record, which of its deliveries it was, and the reader's role."""
    return "struct(op as op, n as n, role as role)"


def jump_findings(jumps: DataFrame, anomaly: str) -> DataFrame:
    """One row of findings for each row of `checkers.external.jumps.make_jumps` for which `anomaly` names one."""
    return findings(
        jumps.selectExpr("*", f"{anomaly} as anomaly").where("anomaly is not null"),
        "anomaly",
        order=["op", "key", "n"],
        ops="array_distinct(array(op_before, op))",
        records="array(struct(key as key, value_before as value, offset_before as offset), "
        "struct(key as key, value as value, offset as offset))",
        skipped="if(index > before, index - before - 1, null)",
        operations="array_distinct(array(struct(op_before as op), struct(op as op)))",
    )
