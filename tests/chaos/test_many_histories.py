"""Tens of thousands of random histories, compared with the reference checker in plain Python (`make chaos`)."""

import pytest
from pyspark.sql import SparkSession

from tests.support.external_histories import holds, judge, random_ones

BATCH = 2_000


@pytest.mark.parametrize("batch", range(1, 11))
def test_every_random_history_has_the_verdict_of_the_reference_checker(
    batch: int, spark: SparkSession
) -> None:
    histories = list(random_ones(range(batch * BATCH, (batch + 1) * BATCH)))
    for events, verdict in zip(histories, judge(spark, histories), strict=True):
        holds(events, verdict)
