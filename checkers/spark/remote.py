"""Use a Spark cluster of the user. Connect to it before Spark is started, and test it before the first check.

Its workers need the same Python with the dependencies of Spark and Fencepost. Fencepost's own code is sent to them.
Spark itself waits without a limit for a free worker; here the wait has a limit.
"""

import os
import socket
import subprocess
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from checkers.spark.driver import last_cause
from harness.common.errors import EnvironmentFailure, StartFailed, WaitTimeout
from harness.common.waiting import wait_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REACH_TIMEOUT_S = 10.0
EXECUTOR_TIMEOUT_S = 60.0
SENT_PACKAGES = ("checkers", "harness")
"""The packages that a task imports."""
STANDALONE = "spark://"
VECTOR = "jdk.incubator.vector"


def reach_master(master: str) -> str | None:
    """Return the address of this machine that a standalone master sees; None for other kinds of masters.

    Raises:
        EnvironmentFailure: no master listens. Spark itself would try for a minute.
    """
    if not master.startswith(STANDALONE):
        return None
    refused: OSError | None = None
    for address in master.removeprefix(STANDALONE).split(","):
        host, _, port = address.rpartition(":")
        try:
            if not 0 < int(port) < 1 << 16:
                raise OSError("no such port")  # the system would use the lower 16 bits of the number
            with socket.create_connection((host.strip("[]"), int(port)), REACH_TIMEOUT_S) as connection:
                return str(connection.getsockname()[0])
        except OSError as error:
            refused = error
    why = refused.strerror or str(refused) if refused else "no address"
    raise EnvironmentFailure(
        f"no Spark master answers at {master} ({why}): use the URL that its web page shows, or leave out --master"
    )


def require_full_jdk(java: Path) -> None:
    """Raise `EnvironmentFailure` if spark-submit cannot start this Java, because it is a small runtime."""
    modules = subprocess.run(
        [java, "--list-modules"],
        capture_output=True,
        text=True,
        check=False,
        encoding="utf-8",
        errors="replace",
    )
    if VECTOR not in modules.stdout:
        raise EnvironmentFailure(
            f"Spark's scripts need a full JDK with {VECTOR}, and {java} is none: install a JDK 17 or newer, and "
            "put it on the path or in JAVA_HOME"
        )


def prepare_workers(
    spark: "SparkSession", conf: Mapping[str, str], folder: Path, needed: Sequence[str]
) -> None:
    """Wait for a worker, send it our code, and have it import what tasks need.

    Raises:
        EnvironmentFailure: there is no worker, or workers cannot run tasks.
    """
    context = spark.sparkContext
    running = context._jsc.sc()

    def executors() -> int:
        return int(running.getExecutorMemoryStatus().size()) - 1  # the driver is one of them

    try:
        wait_for(executors, "an executor", EXECUTOR_TIMEOUT_S)
    except WaitTimeout as error:
        memory = conf.get("spark.executor.memory", "1g")
        raise StartFailed(
            f"no worker of {context.master} gave an executor of {memory} within {EXECUTOR_TIMEOUT_S:g} s: there is "
            "no worker, all cores are in use, or workers have less memory (set --spark-conf "
            "spark.executor.memory=...)"
        ) from error
    context.addPyFile(str(pack_code(folder)))
    _try_python(spark, needed)


def pack_code(folder: Path) -> Path:
    """Write the packages that tasks import to a zip archive from which Python can import."""
    root = Path(__file__).parents[2]
    path = folder / "fencepost-rooms.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for package in SENT_PACKAGES:
            for file in sorted((root / package).rglob("*.py")):
                archive.write(file, file.relative_to(root))
    return path


def _try_python(spark: "SparkSession", needed: Sequence[str]) -> None:
    """Have every core import what a task needs."""
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    context = spark.sparkContext
    tasks = context.defaultParallelism
    try:
        lacking = (
            context.parallelize(range(tasks), tasks)
            .mapPartitions(partial(missing_modules, tuple(needed)))
            .collect()
        )
    except (Py4JJavaError, PySparkException) as error:
        raise _cannot_run_tasks(context.master, last_cause(str(error))) from error
    if lacking:
        raise _cannot_run_tasks(context.master, lacking[0])


def missing_modules(needed: Sequence[str], _: Iterable[int]) -> Iterator[str]:
    """In a task: yield the errors of modules that cannot be imported there."""
    for name in needed:
        try:
            import_module(name)
        except ImportError as error:
            yield f"{error} on {socket.gethostname()}"


def _cannot_run_tasks(master: str | None, why: str) -> EnvironmentFailure:
    python = os.environ.get("PYSPARK_PYTHON")
    return EnvironmentFailure(
        f"the workers of {master} cannot run Fencepost's tasks ({why}): they need the Python {python} with the "
        "packages of requirements.lock; or set another path, which must be the same here and there, with "
        "--spark-conf spark.pyspark.python=PATH"
    )
