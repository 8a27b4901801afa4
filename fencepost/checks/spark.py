"""Start Spark for the commands, with the Java of this machine and an archive of Spark's classes."""

import logging
import zlib
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from checkers.spark.driver import ARCHIVE_TIMEOUT_S, archive_command, class_path
from checkers.spark.session import SparkSettings, StartingSpark, interruptible, start_spark
from harness.common.errors import EnvironmentFailure
from harness.environment.cache import Builder, cache_folder, provide
from harness.environment.java import Java, find_java, last_line
from harness.processes.guardian import sweep_leftovers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

LARGE_INPUTS = 50_000
"""Number of inputs above which Spark starts with its settings for a large history."""
ROWS_OF_AN_INPUT = 20
"""About so many rows, in all tables together, come from one input."""
WORKER_DAEMON = "checkers.histories.python_workers"
ARCHIVE_MB = 300
WARM_UP = "checkers.checking.warm_up"
WARM_UP_S = 15.0
"""A run starts Spark this many seconds before its time limit. Spark then checks a small store, which loads and compiles
its classes. The verdict then comes 6 s earlier (10.8 s instead of 17.3 s after the run, on two busy cores).
"""
LARGE_WARM_UP_S = 90.0
"""`WARM_UP_S` for a large run. Its pipeline leaves Spark little CPU time until it has drained. If the warm-up overlaps
the final reads, they take 1.5 times as long.
"""
TASK_MODULES = (
    "orjson",
    "pyarrow",
    "scipy.sparse",
    "checkers.histories.blocks",
    "checkers.histories.graph",
)
"""Modules that a task on another machine imports directly."""
PRELOADED_MODULES = (
    "pandas",
    "pyarrow.parquet",
    "checkers.checking.stored_runs",
    "checkers.histories.check",
    "checkers.histories.read_folders",
)
"""Imported while the JVM starts, because they take half a second."""


def archive_path(java: Java) -> Path:
    """Path of the archive of Spark's classes for a Java. The file may not exist."""
    jars = ":".join(jar.name for jar in class_path())
    digest = zlib.crc32(f"{java.home}:{jars}".encode())
    name = f"archive-spark-{version('pyspark')}-java-{java.version}-{digest:08x}"
    return cache_folder() / name / "spark.archive"


def make_archive(java: Java, builder: Builder) -> None:
    """Make the archive if it is missing. It saves 8 s in each start of Spark. Raises `EnvironmentFailure`."""
    path = archive_path(java)

    def build(folder: Path) -> None:
        archive, output = folder / path.name, folder / "output"
        command = archive_command(java.home, java.version, archive, WARM_UP)
        child = builder.spawn(command, name="the archive's Spark", log_file=output, cwd=folder)
        if child.wait(ARCHIVE_TIMEOUT_S) != 0 or not archive.exists():
            raise EnvironmentFailure(f"Spark wrote no archive: {last_line(output)}")
        output.unlink()

    provide(path.parent.parent, path.parent.name, build, disk_mb=ARCHIVE_MB)


def spark_settings(
    java: Java,
    master: str,
    conf: Mapping[str, str],
    *,
    large: bool = False,
    warm_up_rows: int | None = None,
) -> SparkSettings:
    """The settings with which Spark starts. With `warm_up_rows` it first checks a small store, as if it had so many."""
    archive = archive_path(java)
    return SparkSettings(
        java_home=java.home,
        master=master,
        conf=conf,
        size="large" if large else "small",
        archive=archive if archive.exists() else None,
        warm_up=None if warm_up_rows is None else partial(_warm_up, rows=warm_up_rows),
        worker_daemon=WORKER_DAEMON,
        needed=TASK_MODULES,
    )


def _warm_up(spark: "SparkSession", *, rows: int) -> None:
    from checkers.checking.warm_up import warm_up

    warm_up(spark, rows)


@contextmanager
def open_spark(master: str, conf: Mapping[str, str], *, large: bool = False) -> "Iterator[SparkSession]":
    """Start Spark with the Java of this machine, and end it with the `with` block."""
    for leftover in sweep_leftovers():
        log.info("ended what an earlier run had left: %s", leftover)
    pending = start_spark(spark_settings(find_java("auto"), master, conf, large=large))
    with closing(pending), interruptible(pending):
        for module in PRELOADED_MODULES:
            import_module(module)
        yield pending.session()


def start_early(java: Java, master: str, conf: Mapping[str, str], inputs: float) -> StartingSpark:
    """Start Spark before the end of a run, and let it check a small store to warm up.

    `inputs` is the number of inputs of the whole run.
    """
    rows = int(inputs * ROWS_OF_AN_INPUT)
    return start_spark(spark_settings(java, master, conf, large=inputs > LARGE_INPUTS, warm_up_rows=rows))
