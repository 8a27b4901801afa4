"""Stored runs, in two Spark jobs: every small history, larger random ones, runs with planted anomalies.

`tests/planted` has the families and their definitions. The small histories are first, the smallest before the others,
so that the first difference is a small one. In a run with plants, a check finds exactly the planted anomalies, each
at its position. Without logs, it may miss some. The long tests (`make chaos`) check thousands of random runs.

The rows of the small histories go through one task, as those of most runs do. The rows of the others go through three,
with products forbidden, because tables are joined by `run` alone, which must stay a key.
"""

from collections.abc import Mapping

import pytest
from pyspark.sql import SparkSession

from checkers.checking.stored_runs import check_runs
from checkers.registry import STORE_CHECKERS
from checkers.spark.settings import BY_ROWS, PARTITIONS
from harness.results.verdict import CheckResult
from tests.planted import families, plants
from tests.planted.families import FAMILIES, Small
from tests.planted.plants import PlantedRun
from tests.support.shared_spark import restored_conf

LARGER, PLANTED, WITHOUT_LOGS = range(20), range(100), range(60)
PRODUCTS = "spark.sql.crossJoin.enabled"
FOUND_LATER = "stalled"
"""The one anomaly without a query: `checkers.recovery.measure` finds it when the verdict is made."""
ANOMALIES = [name for checker in STORE_CHECKERS for name in checker.anomalies if name != FOUND_LATER]


@pytest.fixture(scope="module")
def histories() -> list[Small]:
    return [*families.smalls(), *families.larger(LARGER)]


@pytest.fixture(scope="module")
def planted() -> list[PlantedRun]:
    logged = plants.runs_with_plants(PLANTED)
    return [*logged, *plants.runs_with_plants(WITHOUT_LOGS, logged=False)]


@pytest.fixture(scope="module")
def results(
    spark: SparkSession,
    histories: list[Small],
    planted: list[PlantedRun],
    tmp_path_factory: pytest.TempPathFactory,
) -> Mapping[int, CheckResult]:
    """The results by run number: first the histories, then the runs with plants."""
    folder = tmp_path_factory.mktemp("store")
    runs = families.store(histories, folder / "families")
    larger_runs = runs[-len(LARGER) * len(FAMILIES) :]
    planted_runs = plants.store(planted, folder / "planted", len(runs))
    results = check_runs(spark, runs[: -len(larger_runs)])
    with restored_conf(spark, BY_ROWS, PARTITIONS, PRODUCTS):
        spark.conf.unset(BY_ROWS)
        spark.conf.set(PARTITIONS, "3")
        spark.conf.set(PRODUCTS, "false")
        return results | check_runs(spark, [*larger_runs, *planted_runs], examples=plants.EXAMPLES)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_verdict_agrees_with_its_definition(
    family: str, histories: list[Small], results: Mapping[int, CheckResult]
) -> None:
    said = [one.differs(results[run]) for run, one in enumerate(histories) if one.family == family]
    different = [difference for difference in said if difference]
    assert not different, f"{len(different)} differ, first: {different[0]}"


def test_exactly_the_planted_anomalies_are_found(
    histories: list[Small], planted: list[PlantedRun], results: Mapping[int, CheckResult]
) -> None:
    said = [one.differs(results[run]) for run, one in enumerate(planted, len(histories))]
    different = [difference for difference in said if difference]
    assert not different, f"{len(different)} differ, first: {different[0]}"


@pytest.mark.parametrize("anomaly", ANOMALIES)
@pytest.mark.usefixtures("results")
def test_every_anomaly_is_planted_in_some_run(anomaly: str, planted: list[PlantedRun]) -> None:

    assert any(anomaly in one.planted for one in planted if one.logged and not one.run.gone), (
        "no plant has it"
    )
