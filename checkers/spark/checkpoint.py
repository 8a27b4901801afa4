"""Tables that several queries look at, computed once."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from checkers.spark.errors import has_ended


def keep(frame: DataFrame) -> DataFrame:
    """Compute it now, once, in memory (on disk, where it does not fit); what builds on it sees no history.

    Not `persist`: Spark tells its listeners of every plan with all that is cached below it, and five tables
    that build on each other fill a driver's memory with descriptions.
    """
    return frame.localCheckpoint(eager=True, storageLevel=StorageLevel.MEMORY_AND_DISK_DESER)


@contextmanager
def freed_at_the_end(spark: SparkSession) -> Iterator[None]:
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
