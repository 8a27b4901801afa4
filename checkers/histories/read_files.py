"""Read files of external histories in Spark tasks, pair invocations with completions, and report errors. One job reads
any number of files.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from checkers.histories.blocks import BLOCK_BYTES, OTHER_SENDS, Block, blocks_of
from checkers.histories.files import HistoryFile
from checkers.histories.source import load_blocks
from checkers.histories.table import HistoryTable, SparkTable, union_tables
from checkers.spark.frames import checkpoint
from harness.common.errors import UnreadableInput
from harness.model.vocabulary import EventType
from harness.record.history_form import FAIL, INFO, MICRO, NAMES, OK, OPEN, OPS

F_CHARACTERS = 60
"""The longest operation name (`f`) to show in a message."""
FEW = 50_000
"""Up to this many operations, with their sends, are broadcast instead of shuffled."""


@dataclass(frozen=True, order=True)
class UnreadableHistory:
    """The first reason why a history cannot be checked. `line` counts from 1; None: the reason is not in a line."""

    run: int
    line: int | None
    message: str

    def __str__(self) -> str:
        return self.message if self.line is None else f"line {self.line}: {self.message}"


@dataclass(frozen=True)
class Histories:
    """The tables of `harness.record.history_form`, without the runs in `errors`."""

    ops: HistoryTable
    micro: HistoryTable
    names: HistoryTable
    errors: Mapping[int, UnreadableHistory]  # by run

    def with_more(self, more: "Histories") -> "Histories":
        """Return these histories together with others of other runs."""
        return Histories(
            union_tables(self.ops, more.ops),
            union_tables(self.micro, more.micro),
            union_tables(self.names, more.names),
            {**self.errors, **more.errors},
        )


def read_histories(
    spark: SparkSession, histories: Sequence[HistoryFile], block_bytes: int = BLOCK_BYTES
) -> Histories:
    """Parse all files once. Unreadable files do not raise; they are in `errors`.

    Events, operations and names are checkpointed; `micro` is a view of the events.
    """
    blocks, errors = _plan(histories, block_bytes)
    rows = checkpoint(load_blocks(spark, blocks))
    blocks_read = (
        rows.where(F.col("lines").isNotNull())
        .select("run", "block", "line", "error", "lines", "named", "waiting")
        .collect()
    )
    first_lines: dict[tuple[int, int], int] = {}
    following: dict[int, int] = {}
    for row in sorted(blocks_read, key=lambda row: (row.run, row.block)):
        first = first_lines[row.run, row.block] = following.get(row.run, 1)
        following[row.run] = first + row.lines
        if row.error is not None:
            line = None if row.line is None else first + row.line
            errors.setdefault(row.run, UnreadableHistory(row.run, line, row.error))
    events = _numbered(spark, rows, first_lines)
    paired = checkpoint(_paired(events))
    names = _names(spark, events, any(row.named for row in blocks_read))
    waiting = sum(row.waiting for row in blocks_read)
    carried = _carried(events, paired, waiting) if waiting else None
    any_open = _find_errors(paired, names, carried, errors)
    ops = paired.select(*OPS.names)
    tables = {
        "ops": ops,
        "micro": _micro(events, ops, any_open, carried),
        "names": names.select(*NAMES.names),
    }
    if errors:
        tables = {name: frame.where(~F.col("run").isin(list(errors))) for name, frame in tables.items()}
    return Histories(errors=errors, **{name: SparkTable(frame) for name, frame in tables.items()})


def _plan(
    histories: Sequence[HistoryFile], block_bytes: int
) -> tuple[list[Block], dict[int, UnreadableHistory]]:
    """Return the blocks of all files, and errors of unreadable files."""
    blocks: list[Block] = []
    errors: dict[int, UnreadableHistory] = {}
    for history in histories:
        assert isinstance(history.path, Path), "only a folder of tables can be at a URL"
        try:
            blocks += blocks_of(history.run, history.path, block_bytes)
        except UnreadableInput as error:
            errors[history.run] = UnreadableHistory(history.run, None, str(error))
    return blocks, errors


def _numbered(spark: SparkSession, rows: DataFrame, first_lines: Mapping[tuple[int, int], int]) -> DataFrame:
    """Return the events of numbered processes, with the line in the file, from 1, as `op`."""
    events = rows.where(F.col("process").isNotNull())
    if all(first == 1 for first in first_lines.values()):
        return events.withColumn("op", F.col("line") + 1)
    firsts = pa.table(
        {
            "run": pa.array([run for run, _ in first_lines], pa.int64()),
            "block": pa.array([block for _, block in first_lines], pa.int64()),
            "first": pa.array(first_lines.values(), pa.int64()),
        }
    )
    return events.join(
        F.broadcast(spark.createDataFrame(firsts)), on=["run", "block"], how="inner"
    ).withColumn("op", F.col("line") + F.col("first"))


def _paired(events: DataFrame) -> DataFrame:
    """Return OPS with a column `problem`: why an event and the previous event of its process are no operation.

    An operation is an invocation and the next event of its process, which must be a completion of the same kind.
    """
    events = events.select("run", "op", "process", "type", "f", "time", "isolation", "keys", "rebalanced")
    in_order = Window.partitionBy("run", "process").orderBy("op")
    invokes = F.col("type") == EventType.INVOKE.value
    events = events.withColumns(
        {
            "last_type": F.lag("type").over(in_order),
            "last_op": F.lag("op").over(in_order),
            "last_f": F.lag("f").over(in_order),
            "last_ns": F.lag("time").over(in_order),
            "last_isolation": F.lag("isolation").over(in_order),
            "next_type": F.lead("type").over(in_order),
        }
    )
    after_invocation = F.col("last_type").eqNullSafe(EventType.INVOKE.value)
    twice = F.format_string(
        "process %d invokes an operation while that of line %d is open", "process", "last_op"
    )
    alone = F.format_string("an operation of process %d completes (%s), and none is open", "process", "type")
    other_kind = F.format_string(
        "process %d completes a `%s`, and line %d invoked a `%s`: the two must be the same operation",
        "process",
        F.substring("f", 1, F_CHARACTERS),
        "last_op",
        F.substring("last_f", 1, F_CHARACTERS),
    )
    problem = (
        F.when(invokes & after_invocation, twice)
        .when(~invokes & ~after_invocation, alone)
        .when(~invokes & (F.col("f") != F.col("last_f")), other_kind)
    )
    return events.where(~invokes | F.col("next_type").isNull() | after_invocation).select(
        "run",
        "op",
        "process",
        "f",
        F.when(invokes, F.lit(OPEN).cast("byte")).otherwise(_outcome(F.col("type"))).alias("outcome"),
        F.when(invokes, F.col("op")).otherwise(F.col("last_op")).alias("invoked"),
        F.when(invokes, F.col("time")).otherwise(F.col("last_ns")).alias("invoke_ns"),
        F.when(~invokes, F.col("time")).alias("complete_ns"),
        F.when(invokes, F.col("isolation"))
        .otherwise(F.coalesce("isolation", "last_isolation"))
        .alias("isolation"),
        "keys",
        "rebalanced",
        problem.alias("problem"),
    )


def _carried(events: DataFrame, paired: DataFrame, invocation_count: int) -> DataFrame:
    """Return the completions whose sends must be taken from the invocation.

    They are in another part of the file than the invocation, or do not name the sends. Columns: run, op, process, type;
    `sends` of the invocation, if the completion names none; `problem`, if the completion names other sends.
    `invocation_count` is the number of such invocations.
    """

    def broadcast_if_few(frame: DataFrame) -> DataFrame:
        return F.broadcast(frame) if invocation_count <= FEW else frame

    invoked = events.where((F.col("type") == EventType.INVOKE.value) & (F.size("sends") > 0))
    invocations = invoked.selectExpr("run", "op as invoked", "sends as begun")
    completed = paired.where("invoked != op").select("run", "op", "invoked")
    completions = completed.join(broadcast_if_few(invocations), on=["run", "invoked"], how="inner").drop(
        "invoked"
    )
    same = "transform(sends, r -> struct(r.key, r.value)) = transform(begun, r -> struct(r.key, r.value))"
    return checkpoint(
        events.where(F.col("type") != EventType.INVOKE.value)
        .join(broadcast_if_few(completions), on=["run", "op"], how="inner")
        .selectExpr(
            *("run", "op", "process", "type"),
            "if(sends is null, begun, null) as sends",
            f"if(sends is null or {same}, null, '{OTHER_SENDS}') as problem",
        )
    )


def _names(spark: SparkSession, events: DataFrame, any_named: bool) -> DataFrame:
    """Return NAMES with a column `problem`, which is set if two texts have one number."""
    if not any_named:
        return spark.createDataFrame(NAMES.empty_table()).withColumn("problem", F.lit(None).cast("string"))
    named = events.select("run", F.explode("names").alias("name")).select("run", "name.id", "name.text")
    conflict = F.format_string("%s and %s have the same hash: rename one of them", "text", "other")
    return checkpoint(
        named.groupBy("run", "id")
        .agg(F.min("text").alias("text"), F.max("text").alias("other"))
        .select("run", "id", "text", F.when(F.col("text") != F.col("other"), conflict).alias("problem"))
    )


def _find_errors(
    paired: DataFrame, names: DataFrame, carried: DataFrame | None, errors: dict[int, UnreadableHistory]
) -> bool:
    """Add the first error of each run to `errors`. Returns whether any operation is open."""

    def first(frame: DataFrame, line: Column, is_open: Column) -> DataFrame:
        first_error = F.when(F.col("problem").isNotNull(), F.struct(line.alias("line"), "problem"))
        return frame.groupBy("run").agg(
            F.min(first_error).alias("first_error"), F.bool_or(is_open).alias("open")
        )

    of_lines = first(paired, F.col("op"), F.col("outcome") == OPEN)
    of_names = first(names, F.lit(None).cast("bigint"), F.lit(False))
    parts = [of_lines, of_names]
    if carried is not None:
        parts.append(first(carried, F.col("op"), F.lit(False)))
    any_open = False
    for row in reduce(DataFrame.unionByName, parts).collect():
        any_open |= row.open
        earlier = errors.get(row.run)
        if row.first_error is not None and (
            earlier is None
            or (
                earlier.line is not None
                and row.first_error.line is not None
                and row.first_error.line < earlier.line
            )
        ):
            errors[row.run] = UnreadableHistory(row.run, row.first_error.line, row.first_error.problem)
    return any_open


def _micro(events: DataFrame, ops: DataFrame, any_open: bool, carried: DataFrame | None) -> DataFrame:
    """Return MICRO: the records that completions name.

    For operations that never completed, or whose completion does not name them, these are the sends of the
    invocation.
    """
    outcome = _outcome(F.col("type"))
    completions = events.where(F.col("type") != EventType.INVOKE.value)
    parts = [_records(completions, "sends", outcome), _records(completions, "polls", outcome)]
    if carried is not None:
        parts.append(_records(carried, "sends", outcome))
    if any_open:
        still_open = F.broadcast(ops.where(F.col("outcome") == OPEN).select("run", "op"))
        invoked = events.where(F.col("type") == EventType.INVOKE.value).join(
            still_open, on=["run", "op"], how="left_semi"
        )
        parts.append(_records(invoked, "sends", F.lit(OPEN).cast("byte")))
    return reduce(DataFrame.unionByName, parts).select(*MICRO.names)


def _records(events: DataFrame, column: str, outcome: Column) -> DataFrame:
    """Return the records in the list `column` (sends or polls), one row for each."""
    records = events.where(F.size(column) > 0).select(
        "run", "op", "process", outcome.alias("outcome"), F.posexplode(column).alias("n", "record")
    )
    return records.select(
        "run",
        "op",
        "process",
        "outcome",
        "n",
        "record.key",
        "record.value",
        "record.offset",
        F.lit(column == "polls").alias("polled"),
    )


def _outcome(kind: Column) -> Column:
    """Return the type of a completion as an index into OUTCOMES."""
    return F.when(kind == "ok", OK).when(kind == "info", INFO).otherwise(FAIL).cast("byte")
