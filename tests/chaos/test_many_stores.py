"""Thousands of random stored runs, compared with reference checkers and with planted anomalies (`make chaos`)."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from checkers.checking.stored_runs import check_runs
from tests.planted import families, plants

BATCHES, SEEDS, RUNS = range(1, 11), 100, 200
"""Each batch has a history of each family for each seed in SEEDS, and two runs with plants for each seed in RUNS."""


@pytest.mark.parametrize("batch", BATCHES)
def test_every_larger_history_has_the_expected_findings(
    batch: int, spark: SparkSession, tmp_path: Path
) -> None:
    drawn = families.larger(range(batch * SEEDS, (batch + 1) * SEEDS))
    verdicts = check_runs(spark, families.store(drawn, tmp_path), examples=1)
    for run, expected in enumerate(drawn):
        assert expected.differs(verdicts[run]) is None, expected.differs(verdicts[run])


@pytest.mark.parametrize("batch", BATCHES)
def test_only_planted_anomalies_are_found(batch: int, spark: SparkSession, tmp_path: Path) -> None:
    seeds = range(batch * RUNS, (batch + 1) * RUNS)
    drawn = [planted for logged in (True, False) for planted in plants.runs_with_plants(seeds, logged=logged)]
    verdicts = check_runs(spark, plants.store(drawn, tmp_path), examples=plants.EXAMPLES)
    for run, expected in enumerate(drawn):
        assert expected.differs(verdicts[run]) is None, expected.differs(verdicts[run])
