"""One Spark job checks all cases, as runs of one store."""

from collections.abc import Iterator, Mapping

import pytest
from cases import all_cases, store
from pyspark.sql import SparkSession

from checkers.checking.stored_runs import check_runs
from checkers.spark.partitions import BY_ROWS, PARTITIONS
from checkers.stored.sources import read_sources
from checkers.stored.tables import Tables, make_tables
from harness.results.verdict import CheckResult

all_cases()


@pytest.fixture(scope="session")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Tables:
    """The shared tables of all cases."""
    return make_tables(read_sources(spark, store(tmp_path_factory.mktemp("store"))))


@pytest.fixture(scope="session")
def results(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, CheckResult]:
    """The result of each case by its name; with `--anomaly`, only of the selected cases."""
    cases = all_cases()
    if request.config.getoption("--anomaly"):
        selected = [getattr(item, "callspec", None) for item in request.session.items]
        cases = [case for case in cases if any(one and one.params.get("case") is case for one in selected)]
    by_run = check_runs(spark, store(tmp_path_factory.mktemp("store"), cases))
    return {case.name: by_run[run] for run, case in enumerate(cases)}


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
