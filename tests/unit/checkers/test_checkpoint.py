"""Checkpoints are freed at the end, and shuffles have as many partitions as the rows need."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from checkers.spark import frames
from checkers.spark.driver import SparkSettings
from checkers.spark.frames import (
    broadcast,
    checkpoint,
    checkpoint_or_collect,
    freeing_checkpoints,
    group,
    local_rows,
    local_table,
)
from checkers.spark.settings import (
    BY_ROWS,
    INTERPRETED,
    PARTITIONS,
    coalesce_if_single,
    is_single_partition,
    partitions_needed,
    settings_for_rows,
    spark_conf,
)
from tests.support.shared_spark import tables_in


def test_new_checkpoints_are_freed_and_older_ones_kept(spark: SparkSession) -> None:
    earlier = checkpoint(spark.range(3))
    before = tables_in(spark)
    with freeing_checkpoints(spark):
        assert checkpoint(spark.range(5)).count() == 5
        assert tables_in(spark) > before
    assert tables_in(spark) == before
    assert earlier.count() == 3


@pytest.mark.parametrize("partitions", ["1", "3"])
@pytest.mark.parametrize("rows", [0, 3, 4, 50])
def test_a_table_is_the_same_whether_it_has_few_rows_or_many(
    settings: SparkSession, monkeypatch: pytest.MonkeyPatch, partitions: str, rows: int
) -> None:
    monkeypatch.setattr(frames, "FEW_ROWS", 3)
    settings.conf.set(PARTITIONS, partitions)
    frame = settings.range(rows, numPartitions=4).selectExpr("id", "struct(id as n, array(id) as of) as it")
    before = tables_in(settings)
    collect_small = checkpoint_or_collect(frame)
    assert sorted(row.id for row in collect_small.collect()) == list(range(rows))
    assert (tables_in(settings) == before) is (rows <= 3 and partitions == "1")


def test_rows_of_an_inlined_table_equal_those_of_spark(spark: SparkSession) -> None:
    rows = [{"id": 1, "it": {"n": None, "of": [1, None]}}, {"id": 2, "it": None}]
    table = local_table(spark, pa.Table.from_pylist(rows))
    assert local_rows(table) == rows
    assert local_rows(table.where("true or id > 0")) == rows
    assert local_rows(table.where("id = 2")) == rows[1:]


def test_empty_chunks_hide_no_rows(spark: SparkSession) -> None:
    some = pa.Table.from_pylist([{"id": 1}, {"id": 2}])
    none = some.schema.empty_table()
    table = local_table(spark, pa.concat_tables([none, none, some, none, none, none, some]))
    assert [row.id for row in table.collect()] == [1, 2, 1, 2]


@pytest.mark.parametrize(
    ("rows", "tasks", "partitions"),
    [
        *(
            (0, 2, 1),
            (600_000, 2, 1),
            (600_000, 64, 1),
            (600_001, 1, 2),
            (2_400_001, 2, 3),
            (9_700_000, 2, 9),
        ),
        *((9_700_000, 16, 16), (9_700_000, 64, 17), (10**9, 2, 256)),
    ],
)
def test_there_are_as_many_partitions_as_the_rows_need(rows: int, tasks: int, partitions: int) -> None:
    assert partitions_needed(rows, 256, tasks) == partitions


@pytest.mark.parametrize("rows", [0, 10**9])
def test_settings_of_the_user_are_kept(settings: SparkSession, rows: int) -> None:
    settings.conf.unset(BY_ROWS)
    settings.conf.set(PARTITIONS, "7")
    with settings_for_rows(settings, lambda: rows):
        assert [settings.conf.get(key) for key in (PARTITIONS, *INTERPRETED)] == ["7", "true", "FALLBACK"]
        assert not is_single_partition(settings)


def test_partitions_are_restored_after_the_with(settings: SparkSession) -> None:
    settings.conf.set(BY_ROWS, "yes")
    settings.conf.set(PARTITIONS, "256")
    with pytest.raises(KeyError), settings_for_rows(settings, lambda: 10**7):
        assert settings.conf.get(PARTITIONS) == "9"
        raise KeyError
    assert settings.conf.get(PARTITIONS) == "256"


def test_in_one_partition_nothing_is_shuffled(settings: SparkSession) -> None:
    settings.conf.set(BY_ROWS, "yes")
    for rows, shuffled in ((10, False), (10**7, True)):
        with settings_for_rows(settings, lambda rows=rows: rows):  # type: ignore[misc]
            numbers = coalesce_if_single(settings.range(100)).selectExpr("id", "id % 3 as run")
            sums = group(numbers.unionByName(numbers), ["run"], ["sum(id) as summed"])
            found = numbers.join(broadcast(sums), on=["run"], how="left").where("id < summed")
            plan = found._jdf.queryExecution().executedPlan().toString()  # type: ignore[operator]
            assert ("Exchange" in plan) is shuffled
            assert found.count() == 100


@pytest.mark.parametrize(
    ("size", "conf", "by_rows"),
    [
        ("small", {}, True),
        ("large", {}, True),
        ("large", {PARTITIONS: "256"}, False),
        ("small", {"spark.sql.codegen.wholeStage": "true"}, False),
    ],
)
def test_partitions_depend_on_rows_unless_the_user_sets_them(
    size: str, conf: dict[str, str], by_rows: bool, tmp_path: Path
) -> None:
    assert (BY_ROWS in spark_conf(SparkSettings(size=size, conf=conf), tmp_path)) is by_rows  # type: ignore[arg-type]
