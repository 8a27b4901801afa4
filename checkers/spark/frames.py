"""Compute a table once for several queries, and group and join tables, by whether all rows go through one task."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from checkers.spark.errors import has_ended
from checkers.spark.settings import coalesce_if_single, is_single_partition


def group(frame: DataFrame, keys: Sequence[str], aggregates: Sequence[str]) -> DataFrame:
    """Group by keys that few rows share, and aggregate into structs and lists. The aggregates are SQL.

    By default Spark aggregates each input partition before the shuffle, and again after it. If nearly every row has a
    different key, the first aggregation only costs a sort. So the rows are shuffled first.
    """
    shuffled = frame if is_single_partition(frame.sparkSession) else frame.repartition(*keys)
    return shuffled.groupBy(*keys).agg(*map(F.expr, aggregates))


def broadcast(frame: DataFrame) -> DataFrame:
    """Mark a table that fits into memory, for a join by equal keys.

    With several tasks it is sent to each of them. With a single task the join looks rows up in it, and needs no
    separate job.
    """
    return prefer_hash_join(frame) if is_single_partition(frame.sparkSession) else F.broadcast(frame)


def prefer_hash_join(frame: DataFrame) -> DataFrame:
    """Mark a table for a join by equal keys that may be too large to send to every task. With several tasks Spark
    decides.
    """
    return frame.coalesce(1).hint("shuffle_hash") if is_single_partition(frame.sparkSession) else frame


AS_ROWS, AS_BYTES = StorageLevel.MEMORY_AND_DISK_DESER, StorageLevel.MEMORY_AND_DISK
"""How a table is stored. If millions of rows are stored as objects, garbage collection takes a fifth of the time."""
FEW_ROWS = 1_000
"""A table with at most this many rows is collected and inlined."""
_INLINED: WeakKeyDictionary[DataFrame, pa.Table] = WeakKeyDictionary()
"""The PyArrow tables that inlined tables are made from."""


def checkpoint(frame: DataFrame) -> DataFrame:
    """Compute a table now, and store it in memory, or on disk if memory is short. Later plans do not contain the plan
    of this table.

    `persist` is not used: Spark describes every plan, with all cached tables below it, to its listeners. Five tables
    that build on each other fill a driver's memory with descriptions.
    """
    small = is_single_partition(frame.sparkSession)
    return coalesce_if_single(frame).localCheckpoint(eager=True, storageLevel=AS_ROWS if small else AS_BYTES)


def collect_small(frame: DataFrame) -> DataFrame:
    """Collect a table whose size does not grow with the run, and inline it into queries.

    Spark then needs no job to distribute it, and removes the parts of a plan that are made from an empty table.
    """
    return local_table(frame.sparkSession, frame.toArrow())


def store_changed(changed: DataFrame, recorded: DataFrame) -> DataFrame:
    """Compute a changed table now, and store it as the recorded table is: inlined, or see `checkpoint`."""
    return collect_small(changed) if recorded in _INLINED else checkpoint(changed)


def local_rows(frame: DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a small table. A table that was inlined is not collected again."""
    table = _INLINED.get(frame)
    rows: list[dict[str, Any]] = (frame.toArrow() if table is None else table).to_pylist()
    return rows


def local_columns(frame: DataFrame, names: Sequence[str], where: str = "") -> pa.Table:
    """Return the columns `names` of a table. A table that was inlined is not collected again.

    Args:
        where: a boolean column by which Spark filters the rows that it computes. The rows of an inlined table are not
            filtered.
    """
    table = _INLINED.get(frame)
    if table is not None:
        return table.select(list(names))
    return (frame.where(where) if where else frame).select(*names).toArrow()


def checkpoint_or_collect(frame: DataFrame) -> DataFrame:
    """Store a table that has few rows in most runs. If it has few, it is collected and inlined; otherwise see
    `checkpoint`.

    With a single partition it is not stored first, because that would take one more query. Then it is computed twice if
    it has many rows.
    """
    first = frame if is_single_partition(frame.sparkSession) else checkpoint(frame)
    first_rows = first.limit(FEW_ROWS + 1).toArrow()
    if first_rows.num_rows <= FEW_ROWS:
        return local_table(frame.sparkSession, first_rows)
    return checkpoint(frame) if first is frame else first


def local_table(spark: SparkSession, table: pa.Table) -> DataFrame:
    """Make a table for queries from a small PyArrow table."""
    # One chunk, because Spark stops reading after two empty chunks in a row.
    frame = coalesce_if_single(spark.createDataFrame(table.combine_chunks()))
    _INLINED[frame] = table
    return frame


@contextmanager
def freeing_checkpoints(spark: SparkSession) -> Iterator[None]:
    """Context manager: free the tables that were stored inside, unless Spark is gone.

    By default Spark frees a table when the JVM collects its handle. A JVM that checks many runs would collect garbage
    more and more often.
    """
    before = set(_stored_rdds(spark))
    try:
        yield
    finally:
        if not has_ended():
            for number, rdd in _stored_rdds(spark).items():
                if number not in before:
                    rdd.unpersist(False)


def _stored_rdds(spark: SparkSession) -> Mapping[int, Any]:
    return dict(spark.sparkContext._jsc.getPersistentRDDs())
