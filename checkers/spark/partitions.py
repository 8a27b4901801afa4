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
ROWS = 600_000
"""Of the tables of stored runs, for one partition: 17 for ten million, where 256 take a fifth longer."""
PARTITIONS = "spark.sql.shuffle.partitions"
ONE = "1"


@contextmanager
def partitioned(spark: "SparkSession", rows: Callable[[], int]) -> Iterator[None]:
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
    return min(most, max(1, -(-rows // ROWS)))


def in_one(spark: "SparkSession") -> bool:
    """Whether all rows go through one task."""
    return spark.conf.get(PARTITIONS) == ONE


def read_in_one(frame: "DataFrame") -> "DataFrame":
    """What is read, in one partition, if all rows go through one task."""
    return frame.coalesce(1) if in_one(frame.sparkSession) else frame
