"""The lag agrees with the checks: a run in which inputs are left cannot be valid."""

from dataclasses import replace
from pathlib import Path

from cases import Case, all_cases, store
from pyspark.sql import SparkSession

from checkers.checking.stored_runs import check_runs
from reports.lag import measure_lag
from reports.run_tables import RunTables
from tests.support.stored_tables import write_store

LEAST_CASES = 20
"""At least so many cases leave inputs. If fewer do, the lag does not see the inputs that they leave."""


def leaves_inputs(case: Case, folder: Path) -> bool:
    tables = RunTables(write_store(folder, [(1, case.history)], log=case.history.log))
    return measure_lag(tables).is_left


def test_a_drained_run_in_which_inputs_are_left_has_a_finding_or_a_reason(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The runs say that all stages were drained, so no problem of a run itself explains the inputs."""
    cases = [case for n, case in enumerate(all_cases()) if leaves_inputs(case, tmp_path / str(n))]
    assert len(cases) >= LEAST_CASES
    runs = [replace(run, drained=True) for run in store(tmp_path / "store", cases)]
    results = check_runs(spark, runs)
    unexplained = [
        case.name
        for run, case in enumerate(cases)
        if not results[run].broken and all(found.allowed for found in results[run].anomalies.values())
    ]
    assert unexplained == []
