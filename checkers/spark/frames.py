"""Group and join, depending on whether all rows go through one task."""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.spark.settings_by_rows import is_single_partition


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
