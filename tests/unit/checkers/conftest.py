"""One Spark job checks all cases, as runs of one store."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import pytest
from cases import all_cases, store
from one_job import Job, WantedRun, store_wanted, watched
from pyspark.sql import SparkSession

from checkers.checking.stored_runs import check_runs
from checkers.checking.warm_up import RUN as WARM_UP_RUN
from checkers.spark import settings as spark_settings
from checkers.spark.settings import BY_ROWS, PARTITIONS
from harness.results.verdict import CheckResult
from tests.support.shared_spark import restored_conf

all_cases()


@dataclass(frozen=True)
class Checked:
    """The results of the one job: of each case by its name, with and without its journals, of the wanted runs, and of
    the run with which Spark is warmed up; and its tables.
    """

    cases: Mapping[str, CheckResult]
    blind_cases: Mapping[str, CheckResult]
    wanted: Mapping[WantedRun, CheckResult]
    warm_up: CheckResult
    job: Job


@pytest.fixture(scope="session")
def checked(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Checked:
    """With `--anomaly`, only the selected cases are checked."""
    cases, folder = all_cases(), tmp_path_factory.mktemp("store")
    if request.config.getoption("--anomaly"):
        selected = [getattr(item, "callspec", None) for item in request.session.items]
        cases = [case for case in cases if any(one and one.params.get("case") is case for one in selected)]
    runs = store(folder / "cases", cases)
    blind = [replace(run, blind=True) for run in store(folder / "blind", cases, first=len(runs))]
    wanted = store_wanted(folder / "wanted", first=2 * len(runs))
    with pytest.MonkeyPatch.context() as patch:
        job = watched(patch)
        patch.setattr(spark_settings, "ROWS_INTERPRETED", 10**9)  # interpret queries, as for a small run
        results = check_runs(spark, [*runs, *blind, *(run for _, run in wanted.values()), WARM_UP_RUN])
    return Checked(
        {case.name: results[run.run] for case, run in zip(cases, runs, strict=True)},
        {case.name: results[run.run] for case, run in zip(cases, blind, strict=True)},
        {one: results[run] for run, (one, _) in wanted.items()},
        results[WARM_UP_RUN.run],
        job,
    )


@pytest.fixture(scope="session")
def results(checked: Checked) -> Mapping[str, CheckResult]:
    """The result of each case by its name."""
    return checked.cases


@pytest.fixture(scope="session")
def job(checked: Checked) -> Job:
    """The shared tables of the one job, and the counts of their rows."""
    return checked.job


@pytest.fixture(scope="session")
def blind(checked: Checked) -> Mapping[str, CheckResult]:
    """The result of each case by its name, checked as if its workers had kept no journals."""
    return checked.blind_cases


@pytest.fixture(scope="session")
def result_of(checked: Checked) -> Mapping[WantedRun, CheckResult]:
    """The result of each run that `want` returned."""
    return checked.wanted


@pytest.fixture(scope="session")
def result_of_warm_up(checked: Checked) -> CheckResult:
    """The result of the run with which Spark is warmed up."""
    return checked.warm_up


@pytest.fixture
def settings(spark: SparkSession) -> Iterator[SparkSession]:
    """Settings that a test may change."""
    with restored_conf(spark, BY_ROWS, PARTITIONS):
        yield spark
