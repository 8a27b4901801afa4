"""Choose Spark's settings by the number of rows: the number of partitions of a shuffle, and whether to generate code.

With a single partition Spark plans no shuffle and no partial aggregation, and a query is a single stage: it knows that
rows of the same key are already together. Queries then run side by side instead of tasks.

By default Spark generates Java code for each query, and compiles it. With few rows that takes longer than to interpret
the query.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # PySpark is imported later, while the JVM starts
    from pyspark.sql import DataFrame, SparkSession

BY_ROWS = "spark.fencepost.by-rows"
"""If this setting exists, Fencepost chooses the settings: the user has set none of them."""
ROWS_INTERPRETED = 60_000
"""The greatest number of rows for which queries are interpreted.

On two cores, a cold check of a run with 24,000 rows then takes 18 s instead of 25 s, and a warm one 8.3 s instead of
9.3 s. With 88,000 rows a warm check would take 11.7 s instead of 10.8 s.
"""
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
ROWS = 1_200_000
"""Rows of stored runs for each of several partitions.

On two cores ten million rows get 9 partitions. With 17 a check takes a twentieth longer, with 256 a third.
"""
ROWS_OF_ONE = 600_000
"""The greatest number of rows for a single partition. Its joins hold one side in memory."""
PARTITIONS = "spark.sql.shuffle.partitions"
ONE = "1"


@contextmanager
def settings_for_rows(spark: "SparkSession", rows: Callable[[], int]) -> Iterator[None]:
    """Context manager: inside, use the settings for this number of rows, but not more partitions than the session
    has.
    """
    if not spark.conf.get(BY_ROWS, ""):
        yield
        return
    count, most = rows(), int(str(spark.conf.get(PARTITIONS)))
    settings = {PARTITIONS: str(partitions_needed(count, most, spark.sparkContext.defaultParallelism))}
    if count <= ROWS_INTERPRETED:
        settings |= INTERPRETED
    before = {key: str(spark.conf.get(key)) for key in settings}
    try:
        for key, value in settings.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key, value in before.items():
            spark.conf.set(key, value)


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
