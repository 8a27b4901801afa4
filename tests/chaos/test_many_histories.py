"""Tens of thousands of random histories, compared with the reference checker in plain Python (`make chaos`)."""

import pytest
from pyspark.sql import SparkSession

from tests.support.external_histories import assert_expected_verdict, check, random_histories

BATCH = 2_000


@pytest.mark.parametrize("batch", range(1, 11))
def test_every_random_history_has_the_verdict_of_the_reference_checker(
    batch: int, spark: SparkSession
) -> None:
    histories = list(random_histories(range(batch * BATCH, (batch + 1) * BATCH)))
    for events, verdict in zip(histories, check(spark, histories), strict=True):
        assert_expected_verdict(events, verdict)
