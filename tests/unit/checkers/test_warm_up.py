"""The run that Spark is warmed up with is valid, and is checked as a long run is."""

import pytest
from pyspark.sql import SparkSession

from checkers.checking.warm_up import RUN, warm_up
from checkers.registry import STORE_CHECKERS
from checkers.spark.session import _try_to_warm_up
from checkers.spark.settings import (
    BY_ROWS,
    INTERPRETED,
    PARTITIONS,
    ROWS_INTERPRETED,
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


@pytest.mark.parametrize(
    ("rows", "chosen"),
    [
        (0, ("1", "false", "NO_CODEGEN")),
        (ROWS_INTERPRETED, ("1", "false", "NO_CODEGEN")),
        (ROWS_INTERPRETED + 1, ("1", "true", "FALLBACK")),
        (1_000_000, ("2", "true", "FALLBACK")),
    ],
)
def test_the_run_is_checked_with_the_settings_for_the_number_of_rows(
    settings: SparkSession, monkeypatch: pytest.MonkeyPatch, rows: int, chosen: tuple[str, str, str]
) -> None:
    seen = []

    def current() -> tuple[str | None, ...]:
        return tuple(settings.conf.get(key) for key in (PARTITIONS, *INTERPRETED))

    def make_tables(_: object) -> None:
        seen.append(current())
        raise LookupError

    monkeypatch.setattr("checkers.checking.stored_runs.make_tables", make_tables)
    settings.conf.set(BY_ROWS, "yes")
    settings.conf.set(PARTITIONS, "7")
    with pytest.raises(LookupError):
        warm_up(settings, rows)
    assert seen == [chosen]
    assert current() == ("7", "true", "FALLBACK")


@pytest.mark.parametrize(
    "error", [AnalysisFailed("a query failed"), OSError("no space left"), ValueError("no cheese")]
)
def test_a_warm_up_that_fails_costs_no_verdict(
    spark: SparkSession, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    def warm(spark: SparkSession) -> None:
        raise error

    _try_to_warm_up(warm, spark)
    assert "Spark is not warmed up" in caplog.text and str(error) in caplog.text


def test_spark_that_ends_during_warm_up_does_not_start(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def warm(spark: SparkSession) -> None:
        raise EnvironmentFailure("Spark ended")

    monkeypatch.setattr("checkers.spark.session.has_ended", lambda: True)
    with pytest.raises(EnvironmentFailure):
        _try_to_warm_up(warm, spark)
