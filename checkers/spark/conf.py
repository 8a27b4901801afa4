"""Spark's settings for an analysis, by its size and by where it runs."""

from pathlib import Path

from checkers.spark.driver import SMALL_HEAP, SMALL_PAGE, SparkSettings
from checkers.spark.settings_by_rows import BY_ROWS, INTERPRETED, PARTITIONS


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
        if settings.worker_daemon:
            ours["spark.python.daemon.module"] = settings.worker_daemon
    elif small:
        ours["spark.executor.defaultJavaOptions"] = " ".join(SMALL_HEAP)
    if not settings.conf.keys() & {PARTITIONS, *INTERPRETED}:
        ours[BY_ROWS] = "yes"
    if not settings.direct:
        ours["spark.driver.memory"] = settings.heap
    if own_address is not None:
        ours["spark.driver.host"] = own_address
    return {**ours, **settings.conf}
