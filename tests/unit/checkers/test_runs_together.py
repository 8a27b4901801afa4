"""Runs that are judged alone, among others, and in one folder with others."""

from pathlib import Path

from cases import CASES, store
from pyspark.sql import SparkSession

from checkers.judging.right_run import write_right_run
from checkers.judging.stored_runs import judge


def test_runs_in_folders_of_their_own_are_not_merged(several: SparkSession, tmp_path: Path) -> None:
    runs = store(tmp_path)
    apart = [CASES[run].alone(tmp_path / f"run-{run}", runs[run]) for run in (0, 1)]
    judgements = judge(several, apart)
    assert [CASES[run].differs(judgements[run]) for run in (0, 1)] == [None, None]


def test_products_of_tables_may_be_forbidden(several: SparkSession, tmp_path: Path) -> None:
    """Tables are joined by `run` alone: it must stay a key where there is but one."""
    run = write_right_run(tmp_path, 30)
    several.conf.set("spark.sql.crossJoin.enabled", "false")
    try:
        judgement = judge(several, [run])[0]
    finally:
        several.conf.unset("spark.sql.crossJoin.enabled")
    assert judgement.anomalies == {} and judgement.broken == {}


def test_a_run_that_shares_its_folder_keeps_its_rows(several: SparkSession, tmp_path: Path) -> None:
    runs = store(tmp_path)
    assert CASES[0].differs(judge(several, [runs[0]])[0]) is None
