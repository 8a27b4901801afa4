"""Choose the number of partitions of a shuffle by the number of rows. With few rows there is no shuffle at all.

With a single partition Spark plans no shuffle and no partial aggregation, and a query is a single stage: it knows that
rows of the same key are already together. Queries then run side by side instead of tasks.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # PySpark is imported later, while the JVM starts
    from pyspark.sql import DataFrame, SparkSession

BY_ROWS = "spark.fencepost.partitions"
"""If this setting exists, Fencepost chooses the number: the user has not set it."""
ROWS = 1_200_000
"""Rows of stored runs for each of several partitions.

On two cores ten million rows get 9 partitions. With 17 a check takes a twentieth longer, with 256 a third.
"""
ROWS_OF_ONE = 600_000
"""The greatest number of rows for a single partition. Its joins hold one side in memory."""
PARTITIONS = "spark.sql.shuffle.partitions"
ONE, SEVERAL = "1", "2"


@contextmanager
def partitions_for_rows(spark: "SparkSession", rows: Callable[[], int]) -> Iterator[None]:
    """Context manager: inside, use as many partitions as this number of rows needs, but not more than the session
    has.
    """
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
    """Context manager: inside, use more than one partition for any number of rows, as a check of a large history
    does.
    """
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
    """Return the number of partitions for `rows` rows, if `tasks` tasks run at a time."""
    singles = -(-rows // ROWS_OF_ONE)
    return 1 if singles <= 1 else min(most, max(2, -(-rows // ROWS), min(singles, tasks)))


def is_single_partition(spark: "SparkSession") -> bool:
    """True if all rows go through one task."""
    return spark.conf.get(PARTITIONS) == ONE


def coalesce_if_single(frame: "DataFrame") -> "DataFrame":
    """Coalesce to one partition, if all rows go through one task.

    Spark does not see by itself that tables which it reads, and results of inner joins, are in one partition.
    """
    return frame.coalesce(1) if is_single_partition(frame.sparkSession) else frame
