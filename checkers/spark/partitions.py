"""How many partitions a shuffle has, by how many rows there are; and whether there is any shuffle.

Where all rows go through one task, the tables are read in one partition, and Spark sees that whatever belongs together
is together: it plans no shuffle, no merging of what was aggregated in part, and one stage for a whole query. What is
then left to do side by side are the queries.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # loaded while the JVM comes up
    from pyspark.sql import DataFrame, SparkSession

BY_ROWS = "spark.fencepost.partitions"
"""Set, to anything, where Fencepost decides: the user has not said how many."""
ROWS = 1_200_000
"""Of the tables of stored runs, for one partition of several. On two cores 9 for ten million, where 17 take a twentieth
longer, and 256 a third.
"""
ROWS_OF_ONE = 600_000
"""The same where there is but one: its joins have what they look up in memory."""
PARTITIONS = "spark.sql.shuffle.partitions"
ONE, SEVERAL = "1", "2"


@contextmanager
def partitions_for_rows(spark: "SparkSession", rows: Callable[[], int]) -> Iterator[None]:
    """As many partitions as so many rows need, for the length of a `with`; never more than the session has."""
    most = spark.conf.get(PARTITIONS)
    if most is None or not spark.conf.get(BY_ROWS, ""):
        yield
        return
    tasks = spark.sparkContext.defaultParallelism
    spark.conf.set(PARTITIONS, str(partitions_needed(rows(), int(most), tasks)))
    try:
        yield
    finally:
        spark.conf.set(PARTITIONS, most)


@contextmanager
def several_partitions(spark: "SparkSession") -> Iterator[None]:
    """In more than one, however few the rows, for the length of a `with`: as a large history is judged."""
    most, by_rows = spark.conf.get(PARTITIONS), spark.conf.get(BY_ROWS, "")
    if most is None or not by_rows:
        yield
        return
    spark.conf.unset(BY_ROWS)
    spark.conf.set(PARTITIONS, SEVERAL)
    try:
        yield
    finally:
        spark.conf.set(PARTITIONS, most)
        spark.conf.set(BY_ROWS, by_rows)


def partitions_needed(rows: int, most: int, tasks: int) -> int:
    """How many partitions that many rows need, where so many tasks run at a time."""
    ones = -(-rows // ROWS_OF_ONE)
    return 1 if ones <= 1 else min(most, max(2, -(-rows // ROWS), min(ones, tasks)))


def is_single_partition(spark: "SparkSession") -> bool:
    """Whether all rows go through one task."""
    return spark.conf.get(PARTITIONS) == ONE


def coalesce_if_single(frame: "DataFrame") -> "DataFrame":
    """What is read, in one partition, if all rows go through one task."""
    return frame.coalesce(1) if is_single_partition(frame.sparkSession) else frame
