"""Bringing rows together by a key."""

from pyspark.sql import DataFrame, GroupedData


def gathered(frame: DataFrame, *keys: str) -> GroupedData:
    """Grouped by keys that few rows share, before they are aggregated into structs and lists.

    Spark would aggregate each input partition first, which sorts it, and sort again what it has then shuffled.
    Where nearly every row has a key of its own the first time brings nothing: so the rows are shuffled as they are.
    """
    return frame.repartition(*keys).groupBy(*keys)
