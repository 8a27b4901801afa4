"""What Spark keeps is freed at the end, and shuffles have as many partitions as there is to shuffle."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from checkers.spark.checkpoint import freed_at_the_end, keep
from checkers.spark.conf import spark_conf
from checkers.spark.jvm import SparkSettings
from checkers.spark.partitions import BY_ROWS, PARTITIONS, needed, partitioned


def kept(spark: SparkSession) -> set[int]:
    return set(dict(spark.sparkContext._jsc.getPersistentRDDs()))


def test_what_was_kept_is_freed_and_what_was_there_before_stays(spark: SparkSession) -> None:
    earlier = keep(spark.range(3))
    before = kept(spark)
    with freed_at_the_end(spark):
        assert keep(spark.range(5)).count() == 5
        assert kept(spark) > before
    assert kept(spark) == before
    assert earlier.count() == 3


@pytest.mark.parametrize(
    ("rows", "partitions"), [(0, 2), (1_200_000, 2), (1_200_001, 3), (9_700_000, 17), (10**9, 256)]
)
def test_there_are_as_many_partitions_as_the_rows_need(rows: int, partitions: int) -> None:
    assert needed(rows, 256) == partitions


def test_they_are_set_back_at_the_end_and_left_alone_where_the_user_says_how_many(
    spark: SparkSession,
) -> None:
    said = spark.conf.get(PARTITIONS)
    with partitioned(spark, lambda: 10**9):
        assert spark.conf.get(PARTITIONS) == said
    spark.conf.set(BY_ROWS, "yes")
    spark.conf.set(PARTITIONS, "256")
    try:
        with pytest.raises(KeyError), partitioned(spark, lambda: 10**7):
            assert spark.conf.get(PARTITIONS) == "17"
            raise KeyError
        assert spark.conf.get(PARTITIONS) == "256"
    finally:
        spark.conf.set(PARTITIONS, said or "")
        spark.conf.unset(BY_ROWS)


@pytest.mark.parametrize(
    ("size", "conf", "by_rows"),
    [("small", {}, False), ("large", {}, True), ("large", {PARTITIONS: "256"}, False)],
)
def test_the_rows_decide_for_a_large_history_unless_the_user_does(
    size: str, conf: dict[str, str], by_rows: bool, tmp_path: Path
) -> None:
    assert (BY_ROWS in spark_conf(SparkSettings(size=size, conf=conf), tmp_path)) is by_rows  # type: ignore[arg-type]
