"""Long: thousands of random stored runs, against definitions, and with planted anomalies (`make chaos`)."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from checkers.checking.stored_runs import check_runs
from tests.planted import families, plants

BATCHES, SEEDS, RUNS = range(1, 11), 100, 200
"""In each batch one history of each family for each seed; and twice so many runs with plants."""


@pytest.mark.parametrize("batch", BATCHES)
def test_every_larger_history_is_judged_as_it_is_defined(
    batch: int, spark: SparkSession, tmp_path: Path
) -> None:
    drawn = families.larger(range(batch * SEEDS, (batch + 1) * SEEDS))
    judged = check_runs(spark, families.store(drawn, tmp_path), examples=1)
    for run, one in enumerate(drawn):
        assert one.differs(judged[run]) is None, one.differs(judged[run])


@pytest.mark.parametrize("batch", BATCHES)
def test_what_was_planted_is_found_and_nothing_else(batch: int, spark: SparkSession, tmp_path: Path) -> None:
    seeds = range(batch * RUNS, (batch + 1) * RUNS)
    drawn = [one for logged in (True, False) for one in plants.runs_with_plants(seeds, logged=logged)]
    judged = check_runs(spark, plants.store(drawn, tmp_path), examples=plants.EXAMPLES)
    for run, one in enumerate(drawn):
        assert one.differs(judged[run]) is None, one.differs(judged[run])
