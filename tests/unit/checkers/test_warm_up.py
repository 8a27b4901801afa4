"""The run that Spark is warmed up with is valid, and is checked as a long run is."""

import pytest
from pyspark.sql import SparkSession

from checkers.checking.warm_up import RUN, warm_up
from checkers.registry import STORE_CHECKERS
from checkers.spark.session import _try_to_warm_up
from checkers.spark.shuffle_partitions import (
    BY_ROWS,
    PARTITIONS,
    is_single_partition,
    partitions_for_rows,
    several_partitions,
)
from checkers.stored.sources import read_sources
from harness.common.errors import AnalysisFailed, EnvironmentFailure
from harness.results.verdict import CheckResult


def test_the_run_is_valid_and_nearly_every_checker_has_something_to_check(
    result_of_warm_up: CheckResult,
) -> None:
    assert result_of_warm_up.anomalies == {} and result_of_warm_up.broken == {}
    own = {anomaly for checker in STORE_CHECKERS for anomaly in checker.anomalies}
    assert set(result_of_warm_up.not_checked) & own <= {"aggregate-mismatch"}, "only the sums are missing"


def test_spark_reads_each_table_with_rows_from_a_file(spark: SparkSession) -> None:
    sources = read_sources(spark, [RUN], inline_rows=0)
    files = {
        name
        for name, frame in sources.items()
        if "parquet" in str(frame._jdf.queryExecution().optimizedPlan())
    }
    assert {"ops", "sends", "polls", "records", "expected", "batches", "transactions", "offsets"} <= files


@pytest.mark.parametrize("large", [False, True])
def test_a_large_run_is_checked_in_several_partitions(
    settings: SparkSession, monkeypatch: pytest.MonkeyPatch, large: bool
) -> None:
    seen = []

    def record_partitions(spark: SparkSession, runs: object, inline_rows: int) -> None:
        with partitions_for_rows(spark, lambda: 0):
            seen.append((spark.conf.get(PARTITIONS), is_single_partition(spark)))

    monkeypatch.setattr("checkers.checking.warm_up.check_runs", record_partitions)
    settings.conf.set(BY_ROWS, "yes")
    settings.conf.set(PARTITIONS, "7")
    warm_up(settings, large=large)
    assert seen == [("2", False) if large else ("1", True)]
    assert settings.conf.get(BY_ROWS) == "yes" and settings.conf.get(PARTITIONS) == "7"


def test_the_users_number_of_partitions_is_kept(settings: SparkSession) -> None:
    settings.conf.unset(BY_ROWS)
    settings.conf.set(PARTITIONS, "7")
    with several_partitions(settings):
        assert settings.conf.get(PARTITIONS) == "7"


@pytest.mark.parametrize("error", [AnalysisFailed("a query failed"), OSError("no space left")])
def test_a_warm_up_that_fails_costs_no_verdict(
    spark: SparkSession, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    def warm(spark: SparkSession) -> None:
        raise error

    _try_to_warm_up(warm, spark)
    assert f"Spark is not warmed up ({error})" in caplog.text


def test_spark_that_ends_during_warm_up_does_not_start(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def warm(spark: SparkSession) -> None:
        raise EnvironmentFailure("Spark ended")

    monkeypatch.setattr("checkers.spark.errors.has_ended", lambda: True)
    with pytest.raises(EnvironmentFailure):
        _try_to_warm_up(warm, spark)
