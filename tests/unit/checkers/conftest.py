"""All cases are judged together, as runs of one store, in one Spark job."""

from collections.abc import Iterator, Mapping
from importlib import import_module

import pytest
from cases import CASES, FAMILIES, store
from pyspark.sql import SparkSession

from checkers.judging.stored_runs import judge
from checkers.spark.partitions import BY_ROWS, PARTITIONS
from checkers.stored.sources import read_sources
from checkers.stored.tables import Tables, make_tables
from harness.verdict import Judgement

for family in FAMILIES:
    import_module(f"case_{family}")


@pytest.fixture(scope="session")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Tables:
    """The shared tables of all cases."""
    return make_tables(read_sources(spark, store(tmp_path_factory.mktemp("store"))))


@pytest.fixture(scope="session")
def judged(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Judgement]:
    """What the checkers say of each case, by its name."""
    judgements = judge(spark, store(tmp_path_factory.mktemp("store")))
    return {case.name: judgements[run] for run, case in enumerate(CASES)}


@pytest.fixture
def settings(spark: SparkSession) -> Iterator[SparkSession]:
    """Settings that a test may change."""
    before = {key: spark.conf.get(key, None) for key in (BY_ROWS, PARTITIONS)}
    yield spark
    for key, value in before.items():
        if value is None:
            spark.conf.unset(key)
        else:
            spark.conf.set(key, value)


@pytest.fixture
def several(settings: SparkSession) -> SparkSession:
    """Rows go through three tasks."""
    settings.conf.unset(BY_ROWS)
    settings.conf.set(PARTITIONS, "3")
    return settings
