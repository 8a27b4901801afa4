"""If the job for all runs fails, only the run that caused it gets an error."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from threading import Event, Timer
from typing import Any
from unittest.mock import Mock

import pytest
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from checkers.anomalies import poll_order
from checkers.checking.stored_runs import BatchResults, check_in_parts
from checkers.histories import check as check_module
from checkers.histories.check import check_files
from checkers.spark.errors import translate_spark_errors
from fencepost.checks.histories import check_history_files
from harness.common.errors import AnalysisFailed, EnvironmentFailure, FencepostError, UnreadableInput
from harness.results.verdict import CheckResult, Validity, Verdict
from tests.reference.generate import random_history, to_jsonl
from tests.support.shared_spark import tables_in


@dataclass(frozen=True)
class Run:
    run: int


RUNS = [Run(number) for number in range(8)]
SOUND = CheckResult(anomalies={}, not_checked={}, broken={}, coverage={}, stats={})


def recorded_job(*, fails: Sequence[int] = (), crashes: Sequence[int] = ()) -> tuple[Any, list[int]]:
    """A job that fails if one of `fails` is in it, and one check of which crashes on `crashes`; its sizes."""
    sizes: list[int] = []

    def check(asked: Sequence[Run]) -> BatchResults:
        numbers = [one.run for one in asked]
        sizes.append(len(numbers))
        if bad := set(numbers) & set(fails):
            raise AnalysisFailed(f"failed on {bad}")
        return BatchResults(dict.fromkeys(numbers, SOUND), bool(set(numbers) & set(crashes)))

    return check, sizes


def test_a_batch_without_errors_is_one_job() -> None:
    check, sizes = recorded_job()
    assert check_in_parts(RUNS, check) == dict.fromkeys(range(8), SOUND)
    assert sizes == [8]


def test_a_run_that_fails_affects_no_other() -> None:
    check, sizes = recorded_job(fails=[5])
    answers = check_in_parts(RUNS, check)
    assert {run for run, answer in answers.items() if isinstance(answer, FencepostError)} == {5}
    assert list(answers) == list(range(8))
    assert sizes == [8, 4, 4, 2, 1, 1, 2]


def test_a_crash_is_reported_only_for_the_run_that_caused_it() -> None:
    check, sizes = recorded_job(crashes=[0])
    assert check_in_parts(RUNS, check) == dict.fromkeys(range(8), SOUND)
    assert sizes == [8, 4, 2, 1, 1, 2, 4]


def test_no_smaller_job_is_tried_after_spark_is_gone() -> None:
    def check(asked: Sequence[Run]) -> BatchResults:
        with translate_spark_errors():
            raise ConnectionRefusedError(111, "Connection refused")

    with pytest.raises(EnvironmentFailure, match=r"Spark ended during the analysis.*spark\.driver\.memory"):
        check_in_parts(RUNS, check)


def test_an_ended_spark_is_no_error_of_a_history(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = Mock(**{"_jsc.sc.return_value.isStopped.return_value": True})
    monkeypatch.setattr(SparkContext, "_active_spark_context", stopped)

    def check(asked: Sequence[Run]) -> BatchResults:
        with translate_spark_errors():
            raise PySparkException('because the return value of "SparkContext.dagScheduler()" is null')

    with pytest.raises(EnvironmentFailure, match="Spark ended during the analysis"):
        check_in_parts(RUNS, check)


@pytest.mark.parametrize(
    ("said", "error", "words"),
    [
        ("FAILED_READ_FILE x file:///a/b.parquet. y", UnreadableInput, "/a/b.parquet is damaged"),
        (
            "error while reading file s3a://a/b.parquet/c.parquet",
            UnreadableInput,
            "s3a://a/b.parquet/c.parquet is",
        ),
        (
            "oh\n: java.lang.IllegalStateException: out of cheese\n\tat x",
            AnalysisFailed,
            "failed: out of cheese",
        ),
    ],
)
def test_spark_errors_are_translated(said: str, error: type[FencepostError], words: str) -> None:
    with pytest.raises(error, match=words), translate_spark_errors():
        raise PySparkException(said)


def test_a_full_disk_fails_the_check_of_its_history_only() -> None:
    def check(asked: Sequence[Run]) -> BatchResults:
        with translate_spark_errors():
            if any(run.run == 5 for run in asked):
                raise OSError(28, "No space left on device")
        return BatchResults(dict.fromkeys((run.run for run in asked), SOUND), crashed=False)

    answers = check_in_parts(RUNS, check)
    assert isinstance(answers.pop(5), AnalysisFailed)
    assert answers == {run.run: SOUND for run in RUNS if run.run != 5}


@pytest.fixture
def right(tmp_path: Path) -> Path:
    (tmp_path / "right.jsonl").write_text(to_jsonl(random_history(Random(3), 30, set())))
    return tmp_path / "right.jsonl"


@pytest.mark.parametrize("kind", [PySparkException, AnalysisFailed])
def test_findings_are_kept_if_the_graph_cannot_be_searched(
    spark: SparkSession, right: Path, monkeypatch: Any, kind: type[Exception]
) -> None:
    wrong = right.with_name("wrong.jsonl")
    wrong.write_text(to_jsonl(random_history(Random(2), 30, {"poll-skip"})))

    def crash(*_: Any) -> Any:
        raise kind("out of cheese")

    monkeypatch.setattr("checkers.histories.tables.make_components", crash)
    (verdict,) = check_history_files(spark, [wrong], frozenset())
    assert isinstance(verdict, Verdict) and "poll-skip" in verdict.anomalies
    assert any("out of cheese" in reason.text for reason in verdict.unknown_because)


def test_a_check_that_crashes_on_one_history_leaves_the_other_its_verdict(
    spark: SparkSession, right: Path, monkeypatch: Any
) -> None:
    wrong = right.with_name("wrong.jsonl")
    wrong.write_text(to_jsonl(random_history(Random(2), 30, {"poll-skip"})))
    found = poll_order.poll_order_external
    monkeypatch.setattr(
        poll_order, "poll_order_external", lambda t: found(t).selectExpr("*").withColumn("detail", crash(t))
    )

    def crash(_: Any) -> Any:
        from pyspark.sql import functions as F

        return F.raise_error(F.lit("out of cheese")).cast("string")

    valid, unknown = check_history_files(spark, [right, wrong], frozenset())
    assert isinstance(valid, Verdict) and valid.validity is Validity.VALID
    assert isinstance(unknown, Verdict) and unknown.validity is Validity.UNKNOWN
    assert any("out of cheese" in reason.text for reason in unknown.unknown_because)


def test_the_tables_that_a_check_of_a_history_stores_in_spark_are_freed(
    spark: SparkSession, right: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, seen = tables_in(spark), []
    explaining = check_module._explain

    def looking(*arguments: Any) -> None:
        seen.append(tables_in(spark) - before)
        explaining(*arguments)

    monkeypatch.setattr(check_module, "_explain", looking)
    check_files(spark, {0: right}, frozenset())
    assert seen[0], "no table was stored"
    assert tables_in(spark) <= before


def test_a_failed_check_of_a_history_leaves_no_thread(
    spark: SparkSession, right: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cycles are found beside the other checks, and take longer here."""
    began, ended = Event(), Event()

    def look_for_cycles(*_: object) -> None:
        began.set()
        ended.wait(60)

    def fail(*_: object) -> None:
        assert began.wait(60)
        Timer(0.5, ended.set).start()
        raise PySparkException("out of cheese")

    monkeypatch.setattr("checkers.histories.tables.make_components", look_for_cycles)
    monkeypatch.setattr("checkers.histories.tables.make_keyed", fail)
    assert isinstance(check_files(spark, {0: right}, frozenset())[0], AnalysisFailed)
    assert ended.is_set(), "the check did not wait for its thread"
