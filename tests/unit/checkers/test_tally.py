"""Counting the rows of several tables that match conditions, in one query."""

import pytest
from pyspark.sql import SparkSession

from checkers.stored.tally import MOST, TableQuery, tally


def test_conditions_sums_partitions_and_texts_are_counted_by_run(spark: SparkSession) -> None:
    rows = [(1, 7, "x", 3, True), (1, 7, "x", 4, None), (1, 8, "y", 5, False), (2, 7, "x", 9, True)]
    frame = spark.createDataFrame(rows, "run long, log_tp int, topic string, size long, odd boolean")
    counts = tally(
        [
            TableQuery(
                "partitions",
                frame,
                {"large": "size > 3", "odd": "odd"},
                by_tp="log_tp",
                sums={"sizes": "size"},
            ),
            TableQuery("topics", frame.where("run = 1"), {}, most="size", text="topic"),
        ]
    )
    assert counts.of(1, "partitions") == {"rows": 3, "large": 2, "odd": 1, "sizes": 12}
    assert counts.in_tp(1, "partitions", 7) == {"rows": 2, "large": 1, "odd": 1, "sizes": 7}
    assert counts.in_tp(2, "partitions", 8) is None
    assert counts.most == {(1, "topics"): 5}
    assert {text: count["rows"] for text, count in counts.texts(1, "topics").items()} == {"x": 2, "y": 1}
    assert counts.any_row_matches("partitions", "odd")
    assert not counts.any_row_matches("topics", "odd")
    assert counts.of(2, "topics") == {}


def test_counts_of_different_tables_can_be_joined(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(1,)], "run long")
    counts = tally([TableQuery("one", frame, {})]) | tally([TableQuery("two", frame, {"true": "true"})])
    assert counts.of(1, "one") == {"rows": 1}
    assert counts.any_row_matches("two", "true")


def test_more_conditions_than_a_number_has_bits_are_refused(spark: SparkSession) -> None:
    conditions = {str(n): "true" for n in range(MOST + 1)}
    with pytest.raises(ValueError, match="62 conditions"):
        tally([TableQuery("it", spark.createDataFrame([(1,)], "run long"), conditions)])
    assert tally(
        [TableQuery("it", spark.createDataFrame([(1,)], "run long"), dict(list(conditions.items())[:MOST]))]
    ).of(1, "it")["61"]
