"""A Spark cluster of the user's own: reached before Spark is started, and tried before it is trusted.

What its workers need is the same Python with Spark's and Fencepost's dependencies; Fencepost's own rooms are
sent to them. What Spark itself would wait for without end (a worker that is free) has a bound here.
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

from checkers.spark.jvm import last_cause
from harness.common.errors import EnvironmentFailure, StartFailed, WaitTimeout
from harness.common.waiting import wait_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REACH_TIMEOUT_S = 10.0
EXECUTOR_TIMEOUT_S = 60.0
SENT = ("checkers", "harness")
"""The rooms that a task imports."""
STANDALONE = "spark://"
VECTOR = "jdk.incubator.vector"


def reach_master(master: str) -> str | None:
    """The address of this machine that a standalone master sees; None for other kinds of master.

    Raises `EnvironmentFailure` if no master listens: Spark itself would try for a minute.
    """
    if not master.startswith(STANDALONE):
        return None
    refusal: OSError | None = None
    for place in master.removeprefix(STANDALONE).split(","):
        host, _, port = place.rpartition(":")
        try:
            if not 0 < int(port) < 1 << 16:
                raise OSError("no such port")  # the system would take the port that is left of it in 16 bits
            with socket.create_connection((host.strip("[]"), int(port)), REACH_TIMEOUT_S) as connection:
                return str(connection.getsockname()[0])
        except OSError as error:
            refusal = error
    why = refusal.strerror or str(refusal) if refusal else "no address"
    raise EnvironmentFailure(
        f"no Spark master answers at {master} ({why}): say the URL that its page shows, or leave --master out"
    )


def require_full_jdk(java: Path) -> None:
    """Raise `EnvironmentFailure` if spark-submit could not start this Java, as it cannot a small runtime."""
    listed = subprocess.run([java, "--list-modules"], capture_output=True, text=True, check=False)
    if VECTOR not in listed.stdout:
        raise EnvironmentFailure(
            f"Spark's own scripts need a whole Java, with {VECTOR}, and {java} is none: install a JDK 17 or "
            "newer, and put it on the path or in JAVA_HOME"
        )


def prepare_workers(
    spark: "SparkSession", conf: Mapping[str, str], folder: Path, needed: Sequence[str]
) -> None:
    """Wait for a worker, send it our rooms, and have it import what tasks need; raises `EnvironmentFailure`."""
    context = spark.sparkContext
    running = context._jsc.sc()

    def executors() -> int:
        return int(running.getExecutorMemoryStatus().size()) - 1  # the driver is one of them

    try:
        wait_for(executors, "an executor", EXECUTOR_TIMEOUT_S)
    except WaitTimeout as error:
        memory = conf.get("spark.executor.memory", "1g")
        raise StartFailed(
            f"no worker of {context.master} gave an executor of {memory} within {EXECUTOR_TIMEOUT_S:g} s: "
            "none is there, all are taken, or they have less memory (--spark-conf spark.executor.memory=...)"
        ) from error
    context.addPyFile(str(pack_code(folder)))
    _try_python(spark, needed)


def pack_code(folder: Path) -> Path:
    """The rooms that tasks import, as an archive that Python imports from."""
    home = Path(__file__).parents[2]
    path = folder / "fencepost-rooms.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for room in SENT:
            for file in sorted((home / room).rglob("*.py")):
                archive.write(file, file.relative_to(home))
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
        raise _unfit(context.master, last_cause(str(error))) from error
    if lacking:
        raise _unfit(context.master, lacking[0])


def missing_modules(needed: Sequence[str], _: Iterable[int]) -> Iterator[str]:
    """In a task: what cannot be imported there."""
    for name in needed:
        try:
            import_module(name)
        except ImportError as error:
            yield f"{error} on {socket.gethostname()}"


def _unfit(master: str | None, why: str) -> EnvironmentFailure:
    python = os.environ.get("PYSPARK_PYTHON")
    return EnvironmentFailure(
        f"the workers of {master} cannot run Fencepost's tasks ({why}): they need the Python {python} with "
        "what requirements.lock names, or another, of the same path here and there, that "
        "--spark-conf spark.pyspark.python=PATH names"
    )
