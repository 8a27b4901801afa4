"""Settings of the shared Spark that a test may change."""

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
