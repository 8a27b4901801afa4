"""The shared tables of a history from elsewhere: what its clients told, and nothing else.

One shuffle, by key, carries every check but the cycles: what has the same value, stands at the same offset,
or was sent or polled by the same process, has the same key. The orders that the checks need are then
made by sorting where the rows are.

A *record* here is a pair of key and value; its *index* is the dense rank of its offset among all
known offsets of the key (gaps vanish). The numbers in brackets are those of Jepsen's checker as it decides:

- a value's offset is known from every poll of every completion, and from the sends of operations that
  must have committed: `ok`, or `info` with one of their values ok-read. One that never completed
  counts as `info`;
- its writer is the last completion that names it;
- of a value with several offsets, or at an offset that bears several values, nothing is said about order:
  its index is null, and only `lowest` and `highest` tell where it stands.
"""

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from checkers.graph.make import make_components
from checkers.jumps import make_jumps
from checkers.tables import keep
from harness.history_files.schema import FAIL, INFO, OK, OPEN

__all__ = ["FAIL", "INFO", "OK", "OPEN", "Told", "make_told"]
KEY = ("run", "key")
FEW = 500_000
"""Rows that may be sent to every task rather than shuffled."""


@dataclass(frozen=True)
class Told:
    """The shared tables; `steps` is kept, the others are cut from it."""

    ops: DataFrame
    steps: DataFrame
    bounds: DataFrame
    poll_jumps: DataFrame
    send_jumps: DataFrame
    components: DataFrame
    names: DataFrame

    @property
    def values(self) -> DataFrame:
        """One row for each record: the columns of `steps` that all its rows share."""
        return self.steps.where("first").select(*VALUE_COLUMNS)

    @property
    def reads(self) -> DataFrame:
        """The steps that were given a record."""
        return self.steps.where("polled")

    @property
    def sends(self) -> DataFrame:
        """The steps that sent one."""
        return self.steps.where("not polled")


VALUE_COLUMNS = (
    "run", "key", "value", "lowest", "highest", "index", "writer", "writer_outcome", "due", "ok_read",
    "ok_sent",
)  # fmt: skip


def make_told(ops: DataFrame, micro: DataFrame, names: DataFrame, examples: int) -> Told:
    """The shared tables of histories whose tables have the form of `harness.history_files.schema`.

    `steps` has one row for each micro-operation: run, key, value, offset, op, n, process, polled, outcome;
    committed (its operation must have committed), own (its operation sent the record that it polled);
    and of its record: lowest, highest, index, writer, writer_outcome, due (the writer must have committed),
    ok_read, ok_sent (an ok operation sent it), first (one row of each record has it).

    `bounds`: run, key, bound: the highest index that was ok-read (of a record at several offsets, its first).
    `poll_jumps`, `send_jumps`: see `checkers.jumps.make_jumps`. `components`: see `checkers.graph.make`; at
    most `examples` of each name come with a cycle.
    """
    steps = keep(_of_values(_placed(_committed(micro))))
    bounds = steps.where("first and ok_read").groupBy(*KEY).agg(F.max("lowest").alias("bound"))
    polled, outcome = F.col("polled"), F.col("outcome")
    return Told(
        ops=ops,
        steps=steps,
        bounds=bounds,
        poll_jumps=keep(make_jumps(steps.where(polled), outcome == OK)),
        send_jumps=keep(make_jumps(steps.where(~polled & (outcome != OPEN)), outcome.isin(OK, INFO))),
        components=keep(make_components(ops, steps, examples)),
        names=names,
    )


def _committed(micro: DataFrame) -> DataFrame:
    """With `committed`: an operation is proven by one of its values, of any key, that was ok-read."""
    doubtful = keep(
        micro.where(~F.col("polled") & F.col("outcome").isin(INFO, OPEN)).select(*KEY, "value", "op")
    )
    few = doubtful.count() <= FEW
    ok_reads = micro.where(F.col("polled") & (F.col("outcome") == OK)).select(*KEY, "value")
    suspects = F.broadcast(doubtful) if few else doubtful
    proven = (
        ok_reads.join(suspects, on=[*KEY, "value"], how="inner")
        .select("run", "op")
        .distinct()
        .withColumn("proven", F.lit(True))
    )
    proven = F.broadcast(proven) if few else proven
    return (
        micro.join(proven, on=["run", "op"], how="left")
        .withColumn("committed", (F.col("outcome") == OK) | F.coalesce("proven", F.lit(False)))
        .drop("proven")
    )


def _placed(micro: DataFrame) -> DataFrame:
    """With `rank`, of the step's own offset if that counts, and `clash`: another value stands there too."""
    known = F.when((F.col("offset") >= 0) & (F.col("polled") | F.col("committed")), F.col("offset"))
    by_offset = Window.partitionBy(*KEY).orderBy(F.asc_nulls_last("known"))
    by_place = Window.partitionBy(*KEY).orderBy(F.asc_nulls_last("known"), "value")

    def differs(neighbour: Column, value: Column) -> Column:
        return F.coalesce((neighbour == F.col("known")) & (value != F.col("value")), F.lit(False))

    before = differs(F.lag("known").over(by_place), F.lag("value").over(by_place))
    after = differs(F.lead("known").over(by_place), F.lead("value").over(by_place))
    return (
        micro.withColumn("known", known)
        .repartition(*KEY)
        .withColumn("clash", before | after)
        .withColumn("rank", F.when(F.col("known").isNotNull(), F.dense_rank().over(by_offset)))
        .drop("known")
    )


def _of_values(placed: DataFrame) -> DataFrame:
    """With what all steps of one record tell together."""
    in_value = Window.partitionBy(*KEY, "value").orderBy("op", "n")
    whole = in_value.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    in_op = Window.partitionBy(*KEY, "value", "op")
    sent, ok = ~F.col("polled"), F.col("outcome") == OK
    # One number says which send is the last completion, and what became of it: one aggregate, not three.
    writer = F.when(
        sent,
        F.when(F.col("outcome") == OPEN, F.lit(0)).otherwise(F.lit(1 << 60))
        + F.col("op") * 8
        + F.col("outcome") * 2
        + F.col("committed").cast("int"),
    )
    return (
        placed.withColumn("own", F.col("polled") & F.max(sent).over(in_op))
        .withColumn("lowest", F.min("rank").over(whole))
        .withColumn("highest", F.max("rank").over(whole))
        .withColumn("tainted", F.max("clash").over(whole))
        .withColumn("written", F.max(writer).over(whole))
        .withColumn("ok_read", F.max(F.col("polled") & ok).over(whole))
        .withColumn("ok_sent", F.max(sent & ok).over(whole))
        .withColumn("first", F.row_number().over(in_value) == 1)
        .withColumn("index", F.expr("if(lowest = highest and not tainted, lowest, null)"))
        .withColumn("writer", F.expr(f"(written & {(1 << 60) - 1}) div 8"))
        .withColumn("writer_outcome", F.expr("(written & 7) div 2"))
        .withColumn("due", F.expr("coalesce(written & 1, 0) = 1"))
        .drop("written")
    )
