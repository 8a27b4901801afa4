"""The run that Spark is warmed up with is valid, and is checked as a run of any length is."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from checkers.checking.stored_runs import check_runs
from checkers.checking.valid_run import INPUTS_PER_TRANSACTION, X, write_valid_run
from checkers.checking.warm_up import INPUTS, warm_up
from checkers.registry import STORE_CHECKERS
from checkers.spark.partitions import (
    BY_ROWS,
    PARTITIONS,
    is_single_partition,
    partitions_for_rows,
    several_partitions,
)
from checkers.spark.session import _try_to_warm_up
from checkers.stored.sources import INLINE_ROWS
from harness.common.errors import AnalysisFailed, EnvironmentFailure

LEFT_OUT = {"aggregate-mismatch"}
"""It states no sum; all others are checked."""


def test_a_valid_run_has_no_finding(spark: SparkSession, tmp_path: Path) -> None:
    result = check_runs(spark, [write_valid_run(tmp_path, 10)])[0]
    assert result.anomalies == {}
    assert result.broken == {}
    own = {anomaly for checker in STORE_CHECKERS for anomaly in checker.anomalies}
    assert set(result.not_checked) & own <= LEFT_OUT


def test_another_marker_makes_it_invalid(spark: SparkSession, tmp_path: Path) -> None:
    run = write_valid_run(tmp_path, 10)
    path = tmp_path / "log" / "batches.parquet"
    rows = pq.read_table(path).to_pylist()
    for row in rows:
        if (row["tp"], row["base_offset"]) == (X, INPUTS_PER_TRANSACTION):
            row["marker"] = "abort"
    pq.write_table(pa.Table.from_pylist(rows, pq.read_schema(path)), path)
    result = check_runs(spark, [run])[0]
    assert {"lost-commit", "dirty-read", "lost-input"} <= result.anomalies.keys()


def test_its_large_tables_are_read_from_files(tmp_path: Path) -> None:
    write_valid_run(tmp_path, INPUTS)
    rows = {path.stem: pq.read_metadata(path).num_rows for path in tmp_path.glob("*/*.parquet")}
    large = {table for table, count in rows.items() if count > INLINE_ROWS}
    assert large == {"ops", "sends", "polls", "records", "expected", "batches", "transactions"}
    assert rows["claims"] == -(-INPUTS // INPUTS_PER_TRANSACTION)


@pytest.mark.parametrize("large", [False, True])
def test_a_large_run_is_checked_in_several_partitions(
    settings: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, large: bool
) -> None:
    seen = []

    def record_partitions(spark: SparkSession, runs: object) -> None:
        with partitions_for_rows(spark, lambda: 0):
            seen.append((spark.conf.get(PARTITIONS), is_single_partition(spark)))

    monkeypatch.setattr("checkers.checking.warm_up.check_runs", record_partitions)
    settings.conf.set(BY_ROWS, "yes")
    settings.conf.set(PARTITIONS, "7")
    warm_up(settings, tmp_path, large=large)
    assert seen == [("2", False) if large else ("1", True)]
    assert settings.conf.get(BY_ROWS) == "yes" and settings.conf.get(PARTITIONS) == "7"


def test_the_users_number_of_partitions_is_kept(settings: SparkSession) -> None:
    settings.conf.unset(BY_ROWS)
    settings.conf.set(PARTITIONS, "7")
    with several_partitions(settings):
        assert settings.conf.get(PARTITIONS) == "7"


@pytest.mark.parametrize("error", [AnalysisFailed("a query failed"), OSError("no space left")])
def test_a_warm_up_that_fails_costs_no_verdict(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    def warm(spark: SparkSession, folder: Path) -> None:
        raise error

    _try_to_warm_up(warm, spark, tmp_path)
    assert f"Spark is not warmed up ({error})" in caplog.text


def test_spark_that_ends_during_warm_up_does_not_start(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def warm(spark: SparkSession, folder: Path) -> None:
        raise EnvironmentFailure("Spark ended")

    monkeypatch.setattr("checkers.spark.errors.has_ended", lambda: True)
    with pytest.raises(EnvironmentFailure):
        _try_to_warm_up(warm, spark, tmp_path)
