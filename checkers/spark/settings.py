"""Spark's settings for an analysis, by its size, by where it runs, and by the number of rows.

With a single partition Spark plans no shuffle and no partial aggregation, and a query is a single stage: it knows that
rows of the same key are already together. Queries then run side by side instead of tasks.

By default Spark generates Java code for each query, and compiles it. With few rows that takes longer than to interpret
the query.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from checkers.spark.driver import SMALL_HEAP, SMALL_PAGE, SparkSettings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


BY_ROWS = "spark.fencepost.by-rows"
"""If this setting exists, Fencepost chooses the settings: the user has set none of them."""
ROWS_INTERPRETED = 60_000
"""The greatest number of rows for which queries are interpreted.

On two cores, a cold check of a run with 24,000 rows then takes 18 s instead of 25 s, and a warm one 8.3 s instead of
9.3 s. With 88,000 rows a warm check would take 11.7 s instead of 10.8 s.
"""
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
ROWS = 1_200_000
"""Rows of stored runs for each of several partitions.

On two cores ten million rows get 9 partitions. With 17 a check takes a twentieth longer, with 256 a third.
"""
ROWS_OF_ONE = 600_000
"""The greatest number of rows for a single partition. Its joins hold one side in memory."""
PARTITIONS = "spark.sql.shuffle.partitions"
ONE = "1"


@contextmanager
def settings_for_rows(spark: "SparkSession", rows: Callable[[], int]) -> Iterator[None]:
    """Context manager: inside, use the settings for this number of rows, but not more partitions than the session
    has.
    """
    if not spark.conf.get(BY_ROWS, ""):
        yield
        return
    count, most = rows(), int(str(spark.conf.get(PARTITIONS)))
    settings = {PARTITIONS: str(partitions_needed(count, most, spark.sparkContext.defaultParallelism))}
    if count <= ROWS_INTERPRETED:
        settings |= INTERPRETED
    before = {key: str(spark.conf.get(key)) for key in settings}
    try:
        for key, value in settings.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key, value in before.items():
            spark.conf.set(key, value)


def partitions_needed(rows: int, most: int, tasks: int) -> int:
    """Return the number of partitions for `rows` rows, if `tasks` tasks run at a time."""
    singles = -(-rows // ROWS_OF_ONE)
    return 1 if singles <= 1 else min(most, max(2, -(-rows // ROWS), min(singles, tasks)))


def is_single_partition(spark: "SparkSession") -> bool:
    """True if all rows go through one task."""
    return spark.conf.get(PARTITIONS) == ONE


def coalesce_if_single(frame: "DataFrame") -> "DataFrame":
    """Coalesce to one partition, if all rows go through one task.

    Spark does not see by itself that tables which it reads, and results of inner joins, are in one partition.
    """
    return frame.coalesce(1) if is_single_partition(frame.sparkSession) else frame


def spark_conf(settings: SparkSettings, folder: Path, own_address: str | None = None) -> dict[str, str]:
    """Return our settings, overridden by the user's.

    Args:
        own_address: the address of this machine as the cluster sees it; None: not needed
    """
    small = settings.size == "small"
    ours = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # A task has all of its keys in memory, so they must be few.
        PARTITIONS: "2" if small else "256",
        # About a million micro-operations. A task of `checkers.histories.by_key` needs ten times as much memory.
        "spark.sql.adaptive.advisoryPartitionSizeInBytes": "32m",
        "spark.sql.limit.initialNumPartitions": "256",  # all partitions: a few findings may be in any of them
        "spark.sql.session.timeZone": "UTC",
        "spark.hadoop.parquet.page.verify-checksum.enabled": "true",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # Collect lists by sorting. Hashing takes twice the time and does not spill.
        "spark.sql.execution.useObjectHashAggregateExec": "false",
        "spark.sql.autoBroadcastJoinThreshold": str(32 << 20),
        "spark.sql.maxPlanStringLength": "2000",
        # Spark estimates a join as large as the product of its sides, and would shuffle it.
        "spark.sql.maxSinglePartitionBytes": str(2**63 - 1),
        # An analysis generates some 150 classes. Spark keeps 100 by default, and would compile all of them each time.
        "spark.sql.codegen.cache.maxEntries": "4000",
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.log.level": "ERROR",
    }
    if small:
        ours |= {
            # With adaptive execution each stage of a query is planned again, and is a separate job.
            "spark.sql.adaptive.enabled": "false",
            "spark.buffer.pageSize": SMALL_PAGE,
            "spark.broadcast.blockSize": "128k",  # the default is 4 MB, and each of hundreds of tasks allocates one
        }
    if settings.local:
        ours |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.local.dir": str(folder / "local"),
        }
    elif small:
        ours["spark.executor.defaultJavaOptions"] = " ".join(SMALL_HEAP)
    if not settings.conf.keys() & {PARTITIONS, *INTERPRETED}:
        ours[BY_ROWS] = "yes"
    if not settings.direct:
        ours["spark.driver.memory"] = settings.heap
    if own_address is not None:
        ours["spark.driver.host"] = own_address
    return {**ours, **settings.conf}
