"""Spark's settings for an analysis, by its size and by where it runs."""

from pathlib import Path

from checkers.spark.jvm import SMALL_HEAP, SMALL_PAGE, SparkSettings
from checkers.spark.partitions import BY_ROWS, PARTITIONS


def spark_conf(settings: SparkSettings, folder: Path, here: str | None = None) -> dict[str, str]:
    """Spark's settings: ours, and on top of them the user's. `here`: our address, as the cluster sees it."""
    small = settings.size == "small"
    ours = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # A task has all of its keys in memory, so that they shall be few.
        PARTITIONS: "2" if small else "256",
        # About a million micro-operations: what a task of `checkers.external.by_key` has in memory, ten times over.
        "spark.sql.adaptive.advisoryPartitionSizeInBytes": "32m",
        "spark.sql.limit.initialNumPartitions": "256",  # all of them: a few findings may stand in any
        "spark.sql.session.timeZone": "UTC",
        "spark.hadoop.parquet.page.verify-checksum.enabled": "true",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # Lists are gathered by sorting: by hashing it takes twice the time, and does not spill.
        "spark.sql.execution.useObjectHashAggregateExec": "false",
        "spark.sql.autoBroadcastJoinThreshold": str(32 << 20),
        "spark.sql.maxPlanStringLength": "2000",
        # Spark would shuffle what it takes for larger: it reckons a join as large as its sides multiplied.
        "spark.sql.maxSinglePartitionBytes": str(2**63 - 1),
        # An analysis makes some 150 classes: Spark keeps 100, and would compile each again at each run.
        "spark.sql.codegen.cache.maxEntries": "4000",
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.log.level": "ERROR",
    }
    if small:
        ours |= {
            # Each stage of a query would be a job of its own, and planned anew.
            "spark.sql.adaptive.enabled": "false",
            "spark.buffer.pageSize": SMALL_PAGE,
            "spark.broadcast.blockSize": "128k",  # by itself 4 MB, and each of hundreds of tasks begins one
        }
    if settings.local:
        ours |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.local.dir": str(folder / "local"),
        }
        if settings.worker_daemon:
            ours["spark.python.daemon.module"] = settings.worker_daemon
    elif small:
        ours["spark.executor.defaultJavaOptions"] = " ".join(SMALL_HEAP)
    if PARTITIONS not in settings.conf:
        ours[BY_ROWS] = "yes"
    if not settings.direct:
        ours["spark.driver.memory"] = settings.heap
    if here is not None:
        ours["spark.driver.host"] = here
    return {**ours, **settings.conf}
