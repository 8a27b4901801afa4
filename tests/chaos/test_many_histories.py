"""Long: many thousands of random histories, against the definition in plain Python (`make chaos`)."""

import pytest
from pyspark.sql import SparkSession

from tests.support.external_histories import holds, judge, random_ones

BATCH = 2_000


@pytest.mark.parametrize("batch", range(1, 11))
def test_every_random_history_is_judged_as_it_is_defined(batch: int, spark: SparkSession) -> None:
    drawn = list(random_ones(range(batch * BATCH, (batch + 1) * BATCH)))
    for events, said in zip(drawn, judge(spark, drawn), strict=True):
        holds(events, said)
