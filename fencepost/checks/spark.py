"""Spark, as the commands start it: with the Java that is there, and an archive of its classes."""

import logging
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from checkers.spark.interrupts import interruptible
from checkers.spark.jvm import class_path
from checkers.spark.session import SparkSettings, StartingSpark, make_archive, start_spark
from harness.common.errors import EnvironmentFailure
from harness.environment.cache import cache_folder, locked
from harness.environment.java import Java, java
from harness.processes.guardian import sweep_leftovers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

LARGE_INPUTS = 50_000
"""Of a run, above which Spark is started for a large history."""
WORKER_DAEMON = "checkers.checking.python_workers"
WARM_UP = "checkers.checking.warm_up"
WARM_UP_S = 15.0
"""A run starts Spark this long before its time limit. Spark then checks a small store, so that its classes are loaded
and compiled. This shortens the first verdict after a run by 6 s (10.8 s instead of 17.3 s, on two busy cores).
"""
LARGE_WARM_UP_S = 90.0
"""The same for a large run, whose pipeline leaves Spark a small part of the machine until its drain is over. A warm-up
that goes on into the final reads makes them half as slow again.
"""
TASK_MODULES = (
    "orjson",
    "pyarrow",
    "scipy.sparse",
    "harness.history_files.blocks",
    "checkers.external.graph.kernel",
)
"""What a task on another machine imports, by the end of the chain."""
PRELOADED_MODULES = (
    "pandas",
    "pyarrow.parquet",
    "checkers.checking.stored_runs",
    "checkers.checking.external_histories",
    "checkers.external.read_folders",
)
"""What takes half a second to load: that is done while the JVM comes up."""


def archive_path(found: Java) -> Path:
    """Where the cache has Spark's classes for one Java; it need not be there."""
    jars = ":".join(jar.name for jar in class_path())
    of = zlib.crc32(f"{found.home}:{jars}".encode())
    return cache_folder() / f"spark-{version('pyspark')}-java-{found.version}-{of:08x}.jsa"


def prepare_archive(found: Java, say: Callable[[str], None]) -> None:
    """Make the archive if it is not there: once, in half a minute, it saves 8 s of each analysis.

    Without it all works as well, so a failure is only logged.
    """
    if archive_path(found).exists():
        return
    say(f"making an archive of Spark's classes for Java {found.version} (up to two minutes, once)")
    try:
        with locked(cache_folder(), archive_path(found).name):
            make_archive(SparkSettings(java_home=found.home), archive_path(found), WARM_UP)
    except EnvironmentFailure as error:
        log.warning(
            "the verdict takes some seconds longer, for an archive of Spark's classes could not be made (%s): the run "
            "goes on without it, and the next one tries again",
            error,
        )


def spark_settings(
    found: Java, master: str, conf: Mapping[str, str], *, large: bool = False, warm: bool = False
) -> SparkSettings:
    """How Spark is to be started with that Java."""
    archive = archive_path(found)
    return SparkSettings(
        java_home=found.home,
        master=master,
        conf=conf,
        size="large" if large else "small",
        archive=archive if archive.exists() else None,
        warm_up=partial(_warm_up, large=large) if warm else None,
        worker_daemon=WORKER_DAEMON,
        needed=TASK_MODULES,
    )


def _warm_up(spark: "SparkSession", folder: Path, *, large: bool) -> None:
    from checkers.checking.warm_up import warm_up

    warm_up(spark, folder, large=large)


@contextmanager
def open_spark(master: str, conf: Mapping[str, str], *, large: bool = False) -> "Iterator[SparkSession]":
    """A session for the length of a `with`, with the Java of this machine."""
    for left in sweep_leftovers():
        log.info("ended what an earlier run had left: %s", left)
    pending = start_spark(spark_settings(java("auto"), master, conf, large=large))
    with closing(pending), interruptible(pending):
        for module in PRELOADED_MODULES:
            import_module(module)
        yield pending.session()


def start_early(found: Java, master: str, conf: Mapping[str, str], inputs: float) -> StartingSpark:
    """Start it before a run is over, and have it judge something small meanwhile.

    `inputs` is how many the run will have been fed: each leaves some twenty rows.
    """
    return start_spark(spark_settings(found, master, conf, large=inputs > LARGE_INPUTS, warm=True))
