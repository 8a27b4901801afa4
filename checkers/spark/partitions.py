"""How many partitions a shuffle has, by how many rows there are."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

BY_ROWS = "spark.fencepost.partitions"
"""Set, to anything, where Fencepost decides: a large history, and the user has not said how many."""
ROWS = 600_000
"""Of the tables of stored runs, for one partition: 17 for ten million, where 256 take a fifth longer."""
PARTITIONS = "spark.sql.shuffle.partitions"


@contextmanager
def partitioned(spark: SparkSession, rows: Callable[[], int]) -> Iterator[None]:
    """As many partitions as so many rows need, for the length of a `with`; never more than the session has."""
    most = spark.conf.get(PARTITIONS)
    if most is None or not spark.conf.get(BY_ROWS, ""):
        yield
        return
    spark.conf.set(PARTITIONS, str(needed(rows(), int(most))))
    try:
        yield
    finally:
        spark.conf.set(PARTITIONS, most)


def needed(rows: int, most: int) -> int:
    """How many partitions that many rows need."""
    return min(most, max(2, -(-rows // ROWS)))
