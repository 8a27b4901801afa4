"""What all tests share: one Spark for the whole session."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from checkers.spark.session import SparkSettings, session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One Spark for all tests: starting it costs seconds."""
    with session(SparkSettings()) as started:
        yield started
