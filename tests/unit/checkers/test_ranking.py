"""The first findings and their causes are the same with and without Spark."""

from random import Random

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from checkers.checking.ranking import causes_of_few, first_of_few
from checkers.checking.run_checks import _collect_if_few, _find_causes, _rank
from checkers.findings.form import FINDING
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


def test_one_finding_of_each_operation_comes_before_any_second_one() -> None:
    rows = [finding("duplicate", 3, 8), finding("duplicate", 1, 9), finding("duplicate", 2, 9)]
    findings = first_of_few(rows, 2)[1, "duplicate", False]
    assert (findings.count, [example.facts["at"] for example in findings.examples]) == (3, [1, 3])


def test_findings_without_an_operation_count_by_their_position() -> None:
    rows = [finding("unseen", 1, 9), finding("unseen", 1), finding("unseen", 1, also=1), finding("unseen", 5)]
    findings = first_of_few(rows, 3)[1, "unseen", False]
    assert [(example.facts["at"], example.facts["also"]) for example in findings.examples] == [
        (1, 0),
        (1, 0),
        (5, 0),
    ]


def test_a_cause_shares_an_operation_with_every_finding_of_its_effect() -> None:
    rows = [finding("unseen", 1, 8), finding("unseen", 2, 9), finding("lost-write", 1, 8, 9)]
    assert causes_of_few(rows) == {(1, "unseen", "lost-write"), (1, "lost-write", "unseen")}
    assert causes_of_few([*rows, finding("unseen", 3, 4)]) == {(1, "lost-write", "unseen")}


def test_an_unknown_operation_and_one_of_another_run_cause_nothing() -> None:
    rows = [finding("unseen", 1, None), finding("lost-write", 1, None), finding("corrupt", 1, 5)]
    assert causes_of_few([*rows, finding("phantom", 1, 5, run=2)]) == set()


def findings(seed: int) -> list[Row]:
    """Findings of two runs and three anomalies. Many share an operation or a position; some have no operation."""
    rng = Random(seed)
    return [
        finding(
            rng.choice(["duplicate", "unseen", "lost-write"]),
            rng.randrange(6),
            *(rng.choice([None, 1, 2, 3, 4]) for _ in range(rng.choice([0, 1, 1, 2] if seed % 2 else [3]))),
            run=rng.choice([1, 2]),
            absence=rng.random() < 0.3,
            also=rng.randrange(100),
        )
        for _ in range(rng.choice([4, 8, 60]))
    ]


@pytest.mark.parametrize("seed", range(6))
def test_many_findings_are_ranked_as_few_are(spark: SparkSession, seed: int) -> None:
    rows = findings(seed)
    frame = frame_of(spark, rows)
    assert _rank(frame, 4) == first_of_few(rows, 4)
    assert _find_causes(frame) == causes_of_few(rows)


def test_some_of_the_ranked_findings_have_a_cause() -> None:
    assert [bool(causes_of_few(findings(seed))) for seed in range(6)].count(True) >= 2


def test_without_findings_there_is_no_first(spark: SparkSession) -> None:
    assert _rank(frame_of(spark, []), 4) == first_of_few([], 4) == {}


def test_many_findings_stay_in_spark(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [finding("unseen", number, number) for number in range(3)]
    for most, here in ((3, 3), (2, 0)):
        monkeypatch.setattr("checkers.checking.run_checks.FEW", most)
        found = _collect_if_few(frame_of(spark, rows))
        assert (len(found.few), found.many is None) == (here, here > 0)
