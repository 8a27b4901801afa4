"""Spark for the commands and for one run: the shared one, or one that is started on this machine."""

import logging
import os
import shutil
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from checkers.checking.warm_up import warm_up
from checkers.histories.processes import kill_processes
from checkers.spark.driver import ARCHIVE_TIMEOUT_S, archive_command, class_path
from checkers.spark.session import SparkSettings, StartingSpark, interruptible, start_spark
from fencepost.checks.check_stored_runs import check_stored_run, open_evidence
from fencepost.sharing import SERVER_VARIABLE, ServerRefused, send_request
from harness.common import errors
from harness.common.documents import decode, encode
from harness.common.errors import EnvironmentFailure, FencepostError
from harness.environment.cache import Builder, cache_folder, provide
from harness.environment.java import Java, find_java, last_line
from harness.processes.guardian import sweep_leftovers
from harness.results.verdict import EXAMPLES, Verdict
from harness.settings.options import Options

log = logging.getLogger(__name__)

START_TIMEOUT_S = 5.0
"""Short, because a run starts Spark while it also watches its faults."""
INSTALLATION = str(Path(__file__).resolve().parents[2])
LARGE_INPUTS = 50_000
"""Number of inputs above which Spark starts with its settings for a large history."""
ROWS_OF_AN_INPUT = 20
"""About so many rows, in all tables together, come from one input."""
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
TASK_MODULES = ("pyarrow", "scipy.sparse", "checkers.histories.tables")
"""Modules that a task on another machine imports directly."""
PRELOADED_MODULES = (
    "pandas",
    "pyarrow.parquet",
    "checkers.checking.stored_runs",
    "checkers.histories.check",
    "checkers.histories.read_folders",
)
"""Imported while the JVM starts, because they take half a second."""
LEAST_S = 12.0
"""Minimum seconds from the start of Spark to the time limit."""
WAIT = "wait for Spark"


class SparkParts(Struct, frozen=True):
    """The settings of the shared Spark. Only clients with equal settings can share it."""

    java_home: str
    master: str
    conf: Mapping[str, str]
    installation: str = INSTALLATION  # another installation may have other checkers


class SparkRequest(Struct, frozen=True):
    """Check these stored runs, in this order. Without runs, only start Spark."""

    parts: SparkParts
    runs: Sequence[str] = ()  # absolute paths of folders; each verdict has its path as `history`
    allow: Sequence[str] = ()  # anomalies that do not make a run invalid
    examples: int = EXAMPLES  # of each anomaly


class SharedSpark:
    """The Spark of the server with this socket. If a method raises `ServerRefused`, the caller starts its own Spark."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def start(self, parts: SparkParts) -> None:
        """Start Spark if it has not started. Returns before Spark is ready."""
        send_request(self._path, {"spark": encode(SparkRequest(parts))}, lambda name: None, START_TIMEOUT_S)

    def check(self, request: SparkRequest, phase: Callable[[str], None]) -> list[Verdict | FencepostError]:
        """Check the runs and decide their verdicts. If a run has no verdict, its result is the error."""
        answer = send_request(self._path, {"spark": encode(request)}, phase)
        return [result_from_json(body) for body in answer["results"]]


def shared_spark() -> SharedSpark | None:
    """The shared Spark that the environment names. None if there is none."""
    path = os.environ.get(SERVER_VARIABLE)
    return SharedSpark(Path(path)) if path else None


def result_as_json(result: Verdict | FencepostError) -> dict[str, Any]:
    """Encode a verdict or an error."""
    if isinstance(result, Verdict):
        return {"verdict": encode(result)}
    return {"error": type(result).__name__, "text": str(result)}


def result_from_json(body: Mapping[str, Any]) -> Verdict | FencepostError:
    """The inverse of `result_as_json`. An error class that takes more than a text becomes `EnvironmentFailure`."""
    if "verdict" in body:
        return decode(body["verdict"], Verdict)
    kind = getattr(errors, body["error"], EnvironmentFailure)
    try:
        error = kind(body["text"])
    except TypeError:
        error = EnvironmentFailure(body["text"])
    assert isinstance(error, FencepostError)
    return error


def archive_path(java: Java) -> Path:
    """Path of the archive of Spark's classes for a Java. The file may not exist.

    The path depends on the build of Java, and on the paths and times of the jars: the JVM ignores an archive of others,
    without a word.
    """
    jars = class_path()
    where = zlib.crc32(f"{java.home}:{jars[0].parent}".encode())
    times = [(jar.name, jar.stat().st_size, jar.stat().st_mtime_ns) for jar in jars]
    what = zlib.crc32(f"{java.release}:{times}".encode())
    name = f"archive-spark-{version('pyspark')}-java-{java.version}-{where:08x}-{what:08x}"
    return cache_folder() / name / "spark.archive"


def make_archive(java: Java, builder: Builder) -> None:
    """Make the archive if it is missing, and remove those that no longer fit.

    Without it, Spark starts 2 s later, and a cold check of a small run takes a quarter longer. Raises
    `EnvironmentFailure`.
    """
    path = archive_path(java)

    def build(folder: Path) -> None:
        archive, output = folder / path.name, folder / "output"
        command = archive_command(java.home, java.version, archive, WARM_UP)
        child = builder.spawn(command, name="the archive's Spark", log_file=output, cwd=folder)
        if child.wait(ARCHIVE_TIMEOUT_S) != 0 or not archive.exists():
            raise EnvironmentFailure(f"Spark wrote no archive: {last_line(output)}")
        output.unlink()

    provide(path.parent.parent, path.parent.name, build, disk_mb=ARCHIVE_MB)
    of_these_jars = path.parent.name.split("-")[-2]
    for folder in path.parent.parent.glob(f"archive-spark-*-{of_these_jars}-*"):
        if folder != path.parent:
            shutil.rmtree(folder, ignore_errors=True)


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
        warm_up=None if warm_up_rows is None else partial(warm_up, rows=warm_up_rows),
        needed=TASK_MODULES,
    )


@contextmanager
def starting_spark(master: str, conf: Mapping[str, str], *, large: bool = False) -> Iterator[StartingSpark]:
    """Start Spark with the Java of this machine, and end it with the `with` block, which does not wait for it."""
    for leftover in sweep_leftovers():
        log.info("ended what an earlier run had left: %s", leftover)
    pending = start_spark(spark_settings(find_java("auto"), master, conf, large=large))
    with closing(pending), interruptible(pending, kill_processes):
        for module in PRELOADED_MODULES:
            import_module(module)
        yield pending


def start_early(java: Java, master: str, conf: Mapping[str, str], inputs: float) -> StartingSpark:
    """Start Spark before the end of a run, and let it check a small store to warm up.

    `inputs` is the number of inputs of the whole run.
    """
    rows = int(inputs * ROWS_OF_AN_INPUT)
    return start_spark(spark_settings(java, master, conf, large=inputs > LARGE_INPUTS, warm_up_rows=rows))


class RunSpark:
    """Uses the shared Spark if the environment names one and the run is small. Otherwise the run starts its own."""

    def __init__(self, options: Options, stack: ExitStack) -> None:
        self._options, self._stack = options, stack
        self._shared = None if is_large(options) else shared_spark()
        self._java: Java | None = None
        self._own: StartingSpark | None = None

    def lead_s(self) -> float:
        """Seconds before the time limit at which to call `start`: the warm-up time, or half of a shorter run."""
        warm_up_s = LARGE_WARM_UP_S if is_large(self._options) else WARM_UP_S
        return min(warm_up_s, max(self._options.time_limit_s / 2, LEAST_S))

    def start(self, java: Java) -> None:
        """Start Spark in the background. The run's own Spark ends with the exit stack."""
        self._java = java
        if self._shared is not None:
            try:
                self._shared.start(self._parts(java))
                return
            except ServerRefused as error:
                log.info("this run starts its own Spark: %s", error)
                self._shared = None
        self._own = self._start_own(java)

    def check(self, folder: Path, phase: Callable[[str], None], examples: int = EXAMPLES) -> Verdict:
        """Check the run and decide its verdict. `phase` gets the name of each step. Raises `FencepostError`."""
        assert self._java is not None, "`start` must be called before `check`"
        phase(WAIT)
        if self._shared is not None:
            request = SparkRequest(self._parts(self._java), [str(folder.absolute())], examples=examples)
            try:
                (result,) = self._shared.check(request, phase)
            except ServerRefused as error:
                log.warning("the shared Spark failed, so this run starts its own: %s", error)
            else:
                if isinstance(result, FencepostError):
                    raise result
                return structs.replace(result, history=str(folder))
        own = self._own or self._start_own(self._java)
        with interruptible(own, kill_processes):
            return check_stored_run(own.session(), open_evidence(str(folder), folder), phase, examples)

    def _start_own(self, java: Java) -> "StartingSpark":
        options = self._options
        pending = start_early(java, options.master, options.spark_conf, _inputs(options))
        self._stack.callback(pending.close)
        return pending

    def _parts(self, java: Java) -> SparkParts:
        return SparkParts(str(java.home), self._options.master, self._options.spark_conf)


def is_large(options: Options) -> bool:
    """Return True if a run with these options has a large history."""
    return _inputs(options) > LARGE_INPUTS


def _inputs(options: Options) -> float:
    return options.rate * options.time_limit_s
