"""The findings of all queries: how many, the first of each anomaly, and which anomaly is the cause of which."""

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from checkers.checking.run_checks import _collect_if_few, _find_causes, _rank
from checkers.findings import FINDING
from tests.support.micro import Row


def finding(
    anomaly: str, position: int, *ops: int | None, run: int = 1, absence: bool = False, also: int = 0
) -> Row:
    """One row of findings; `also` is in its detail alone."""
    return {
        "run": run, "anomaly": anomaly, "absence": absence, "position": [position], "ops": list(ops),
        "detail": f'{{"also": {also}, "at": {position}}}',
    }  # fmt: skip


def frame_of(spark: SparkSession, rows: list[Row]) -> DataFrame:
    return spark.createDataFrame(pa.Table.from_pylist(rows, FINDING))


def test_one_finding_of_each_operation_comes_before_any_second_one(spark: SparkSession) -> None:
    rows = [finding("duplicate", 3, 8), finding("duplicate", 1, 9), finding("duplicate", 2, 9)]
    findings = _rank(frame_of(spark, rows), 2)[1, "duplicate", False]
    assert (findings.count, [example.facts["at"] for example in findings.examples]) == (3, [1, 3])


def test_findings_without_an_operation_count_by_their_position(spark: SparkSession) -> None:
    rows = [finding("unseen", 1, 9), finding("unseen", 1), finding("unseen", 1, also=1), finding("unseen", 5)]
    examples = _rank(frame_of(spark, rows), 3)[1, "unseen", False].examples
    assert [(one.facts["at"], one.facts["also"]) for one in examples] == [(1, 0), (1, 0), (5, 0)]


def test_findings_are_counted_by_run_anomaly_and_absence(spark: SparkSession) -> None:
    rows = [finding("unseen", 1, 9), finding("unseen", 2, 9, run=2), finding("unseen", 3, 9, absence=True)]
    assert {key: one.count for key, one in _rank(frame_of(spark, [*rows, rows[0]]), 4).items()} == {
        (1, "unseen", False): 2,
        (2, "unseen", False): 1,
        (1, "unseen", True): 1,
    }


def test_a_cause_shares_an_operation_with_every_finding_of_its_effect(spark: SparkSession) -> None:
    rows = [finding("unseen", 1, 8), finding("unseen", 2, 9), finding("lost-write", 1, 8, 9)]
    assert _find_causes(frame_of(spark, rows)) == {
        (1, "unseen", "lost-write"),
        (1, "lost-write", "unseen"),
    }
    rows.append(finding("unseen", 3, 4))
    assert _find_causes(frame_of(spark, rows)) == {(1, "lost-write", "unseen")}


def test_an_unknown_operation_and_one_of_another_run_cause_nothing(spark: SparkSession) -> None:
    rows = [finding("unseen", 1, None), finding("lost-write", 1, None), finding("corrupt", 1, 5)]
    assert _find_causes(frame_of(spark, [*rows, finding("phantom", 1, 5, run=2)])) == set()


def test_without_findings_there_is_no_first(spark: SparkSession) -> None:
    assert _rank(frame_of(spark, []), 4) == {}


def test_many_findings_stay_in_spark(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [finding("unseen", number, number) for number in range(3)]
    for most, here in ((3, 3), (2, 0)):
        monkeypatch.setattr("checkers.checking.run_checks.FEW", most)
        found = _collect_if_few(frame_of(spark, rows))
        assert (len(found.few), found.many is None) == (here, here > 0)
