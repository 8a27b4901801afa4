"""The shared Spark: settings that a test may change, and what it stores."""

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession


@contextmanager
def restored_conf(spark: SparkSession, *keys: str) -> Iterator[SparkSession]:
    """Restore these settings at the end."""
    before = {key: spark.conf.get(key, None) for key in keys}
    try:
        yield spark
    finally:
        for key, value in before.items():
            if value is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, value)


def tables_in(spark: SparkSession) -> set[int]:
    """Return the numbers of the tables that Spark stores now."""
    return set(dict(spark.sparkContext._jsc.getPersistentRDDs()))
