"""Tables that several queries look at, computed once."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from checkers.spark.errors import has_ended
from checkers.spark.partitions import coalesce_if_single, is_single_partition

AS_ROWS, AS_BYTES = StorageLevel.MEMORY_AND_DISK_DESER, StorageLevel.MEMORY_AND_DISK
"""How a table is kept. Millions of rows, each an object, are a fifth of the time in collecting garbage."""
FEW_ROWS = 1_000
"""Rows of a table that is brought here."""
_HERE: WeakKeyDictionary[DataFrame, pa.Table] = WeakKeyDictionary()
"""What the tables were made of that are here."""


def checkpoint(frame: DataFrame) -> DataFrame:
    """Compute it now, once, in memory (on disk, where it does not fit); what builds on it sees no history.

    Not `persist`: Spark tells its listeners of every plan with all that is cached below it, and five tables
    that build on each other fill a driver's memory with descriptions.
    """
    small = is_single_partition(frame.sparkSession)
    return coalesce_if_single(frame).localCheckpoint(eager=True, storageLevel=AS_ROWS if small else AS_BYTES)


def collect_small(frame: DataFrame) -> DataFrame:
    """The same for a table that is small, however large a run was: it is brought here, and goes with each query that
    looks at it. Spark then needs no job to send it on, and leaves out of a plan what comes of an empty one.
    """
    return local_table(frame.sparkSession, frame.toArrow())


def local_rows(frame: DataFrame) -> list[dict[str, Any]]:
    """The rows of a small table, here: Spark is not asked for those of a table that never left."""
    table = _HERE.get(frame)
    rows: list[dict[str, Any]] = (frame.toArrow() if table is None else table).to_pylist()
    return rows


def local_columns(frame: DataFrame, names: Sequence[str], where: str = "") -> pa.Table:
    """These columns of a table; Spark is not asked for those of one that never left. Of one that it computes the rows
    alone for which `where` holds, one of the columns.
    """
    table = _HERE.get(frame)
    if table is not None:
        return table.select(list(names))
    return (frame.where(where) if where else frame).select(*names).toArrow()


def checkpoint_or_collect(frame: DataFrame) -> DataFrame:
    """The same for a table that is small in most runs: as `brought` if it has few rows, or as `keep`.

    Where there is but one task it is computed twice if it has many: most have few, and to keep it first would be a
    query more.
    """
    first = frame if is_single_partition(frame.sparkSession) else checkpoint(frame)
    few = first.limit(FEW_ROWS + 1).toArrow()
    if few.num_rows <= FEW_ROWS:
        return local_table(frame.sparkSession, few)
    return checkpoint(frame) if first is frame else first


def local_table(spark: SparkSession, table: pa.Table) -> DataFrame:
    """A small table that is here, for queries."""
    # In one piece: Spark reads no further than two empty pieces, one after the other.
    frame = coalesce_if_single(spark.createDataFrame(table.combine_chunks()))
    _HERE[frame] = table
    return frame


@contextmanager
def freeing_checkpoints(spark: SparkSession) -> Iterator[None]:
    """Free what was kept in a `with`, unless Spark is gone. By itself Spark frees a table when the JVM comes to
    collect it, and one that judges again and again collects more and more often.
    """
    before = set(_kept(spark))
    try:
        yield
    finally:
        if not has_ended():
            for number, rdd in _kept(spark).items():
                if number not in before:
                    rdd.unpersist(False)


def _kept(spark: SparkSession) -> Mapping[int, Any]:
    return dict(spark.sparkContext._jsc.getPersistentRDDs())
