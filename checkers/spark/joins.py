"""Bringing rows together by a key."""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.spark.partitions import is_single_partition


def group(frame: DataFrame, keys: Sequence[str], aggregates: Sequence[str]) -> DataFrame:
    """Group by keys that few rows share, and aggregate into structs and lists. The aggregates are SQL.

    Spark would aggregate each input partition before the shuffle, and again after it. If nearly every row has a key of
    its own, the first time only costs a sort. So the rows are shuffled first.
    """
    shuffled = frame if is_single_partition(frame.sparkSession) else frame.repartition(*keys)
    return shuffled.groupBy(*keys).agg(*map(F.expr, aggregates))


def broadcast(frame: DataFrame) -> DataFrame:
    """A table that fits into memory, to be joined by equal keys: sent to every task; or, where there is but one, looked
    up in it, which needs no job of its own.
    """
    return prefer_hash_join(frame) if is_single_partition(frame.sparkSession) else F.broadcast(frame)


def prefer_hash_join(frame: DataFrame) -> DataFrame:
    """The same of a table that may be too large to be sent to every task: where there are several, Spark decides."""
    return frame.coalesce(1).hint("shuffle_hash") if is_single_partition(frame.sparkSession) else frame
