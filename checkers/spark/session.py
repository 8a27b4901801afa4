"""Start Spark quickly, or reach the user's cluster, and leave nothing behind.

On a local master the driver's JVM is started directly, without spark-submit. That works on a bare JRE, uses an archive
of loaded classes (`archive_command`), and lets the JVM start in the background during the last seconds of a run. The
JVM ends when its standard input closes, so it cannot outlive this process, however that ends.

Any other master is reached by spark-submit, as PySpark does it, so that the settings of an installed Spark apply. A
local master with settings that only spark-submit understands is reached in the same way.

The workers of a cluster need the same Python with the dependencies of Spark and Fencepost. Fencepost's own code is sent
to them, and they are tested before the first check. Spark itself waits without a limit for a free worker; here the wait
has a limit.
"""

import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from threading import Thread
from types import FrameType

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from checkers.spark.driver import (
    ARCHIVE_TIMEOUT_S,
    STOP_TIMEOUT_S,
    SparkSettings,
    driver_flags,
    end_jvm,
    find_java,
    first_line,
    last_cause,
    start_jvm,
    wait_for_gateway,
)
from checkers.spark.errors import has_ended
from checkers.spark.settings import spark_conf
from harness.common.errors import (
    AnalysisFailed,
    EnvironmentFailure,
    FencepostError,
    StartFailed,
    WaitTimeout,
    value_or_error,
)
from harness.common.waiting import wait_for

__all__ = ["SparkSettings", "StartingSpark", "session", "start_spark"]

log = logging.getLogger(__name__)
# py4j logs a traceback for each call into a JVM that has ended, to the root logger too.
logging.getLogger("py4j").setLevel(logging.CRITICAL)
logging.getLogger().addFilter(lambda record: not record.pathname.endswith("py4j/java_gateway.py"))

REACH_TIMEOUT_S = 10.0
EXECUTOR_TIMEOUT_S = 60.0
SENT_PACKAGES = ("checkers", "harness")
"""The packages that a task imports."""
STANDALONE = "spark://"
VECTOR = "jdk.incubator.vector"


class StartingSpark:
    """A Spark that is starting. `session()` waits for it, `close()` ends it. It is a context manager too."""

    def __init__(self, settings: SparkSettings) -> None:
        self._settings = settings
        self._folder = Path(tempfile.mkdtemp(prefix="fencepost-spark-"))
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        self._jvm: subprocess.Popen[bytes] | None = None
        self.killed = self._closed = False
        try:
            if settings.direct:
                self._jvm = start_jvm(settings, self._folder, self._output.fileno())
            _import_pyspark()
        except BaseException:
            self._clean_up()
            raise
        self._opening = ThreadPoolExecutor(max_workers=1, thread_name_prefix="spark")
        self._opened = self._opening.submit(_connect, settings, self._folder, self._jvm)

    def session(self) -> SparkSession:
        """Wait for the session. Raises `EnvironmentFailure` if Spark does not start."""
        error = self._opened.exception()
        if error is None:
            return self._opened.result()
        if isinstance(error, EnvironmentFailure) and not self._last_output():
            raise error
        raise StartFailed(f"Spark did not start: {first_line(error)}{self._last_output()}") from error

    @property
    def local(self) -> bool:
        """True if everything runs in the driver's own JVM."""
        return self._settings.local

    def kill(self) -> None:
        """End the JVM now, whatever it is doing; `close()` must still be called."""
        self.killed = True
        if self._jvm is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._jvm.pid, signal.SIGKILL)
        else:
            _kill_submitted()

    def close(self) -> None:
        """End Spark and its JVM, and remove its folder. Failures are logged."""
        if self._closed:
            return
        self._closed = True
        if self._jvm is not None and not self._opened.done():
            self.killed = True  # the session may start in spite of that, and cannot be stopped in order
            end_jvm(self._jvm, 0)
        if self._opened.exception() is None:
            _stop(self._opened.result(), logging.DEBUG if self.killed else logging.WARNING)
        self._opening.shutdown()
        if self._jvm is not None:
            end_jvm(self._jvm, self._end_timeout_s())
        self._clean_up()

    def _end_timeout_s(self) -> float:
        """How long the JVM may take to end by itself after Spark has stopped.

        It has nothing more to do then, unless it writes an archive, or may have to remove files outside our folder.
        """
        if self._settings.java_flags:
            return ARCHIVE_TIMEOUT_S
        return STOP_TIMEOUT_S if self._settings.conf or "SPARK_LOCAL_DIRS" in os.environ else 0.0

    def _clean_up(self) -> None:
        self._output.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> SparkSession:
        try:
            return self.session()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()

    def _last_output(self) -> str:
        """Return the last line of the JVM's output, in parentheses. Empty: there is none."""
        self._output.seek(0)
        lines = self._output.read().decode(errors="replace").strip().splitlines()
        return f" ({lines[-1].strip()})" if lines else ""


def _import_pyspark() -> None:
    """Import PySpark in the caller's thread, while the JVM starts, and before any other thread can import it.

    Its modules import each other. If two threads import them at once, Python breaks the deadlock by handing out a
    module that is not complete, and one of the threads fails with an ImportError.
    """
    import_module("pyspark.errors")
    import_module("pyspark.sql")


def start_spark(settings: SparkSettings) -> StartingSpark:
    """Start Spark in the background and return at once. Raises `EnvironmentFailure` without Java."""
    return StartingSpark(settings)


@contextmanager
def session(settings: SparkSettings) -> Iterator[SparkSession]:
    """Context manager: start Spark, and end it at the exit."""
    with start_spark(settings) as spark:
        yield spark


def _connect(settings: SparkSettings, folder: Path, jvm: "subprocess.Popen[bytes] | None") -> SparkSession:
    """Connect to the gateway, if there is one, make the session, and make sure that it can work."""
    if python := settings.conf.get("spark.pyspark.python"):
        os.environ["PYSPARK_PYTHON"] = python
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = _make(settings, folder, jvm)
    try:
        remember_classes(spark)
        # Otherwise a Python worker would import our packages from the user's current folder.
        spark.sparkContext.environment["PYTHONSAFEPATH"] = "1"
        if not settings.local:
            prepare_workers(spark, settings.conf, folder, settings.needed)
        elif settings.warm_up:  # not on other machines, which cannot read the files of the run
            _try_to_warm_up(settings.warm_up, spark)
    except BaseException:
        _stop(spark)
        raise
    return spark


def _try_to_warm_up(warm_up: Callable[[SparkSession], object], spark: SparkSession) -> None:
    """Call `warm_up`. If it fails, Spark is only slower, unless it has ended."""
    result = value_or_error(lambda: warm_up(spark), AnalysisFailed, str)
    if isinstance(result, FencepostError):
        if has_ended():
            raise result
        log.warning("Spark is not warmed up (%s): the verdict takes some seconds longer", first_line(result))


def _make(settings: SparkSettings, folder: Path, jvm: "subprocess.Popen[bytes] | None") -> SparkSession:
    """Make the session. Raises `EnvironmentFailure`."""
    own_address = reach_master(settings.master)
    if jvm is not None:
        port, secret = wait_for_gateway(folder / "gateway", jvm)
        variables = {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}
    else:
        require_full_jdk(find_java(settings.java_home)[0])
        variables = {"SPARK_SUBMIT_OPTS": driver_flags(settings, folder)}
        if settings.java_home:
            os.environ["JAVA_HOME"] = str(settings.java_home)
    try:
        with _environment(variables):
            builder = SparkSession.builder.master(settings.master).appName("fencepost")
            for key, value in spark_conf(settings, folder, own_address).items():
                builder = builder.config(key, value)
            return builder.getOrCreate()
    except (Py4JError, PySparkException, OSError) as error:  # OSError: the JVM has ended
        _forget_gateway()
        if settings.local:
            raise
        raise StartFailed(
            f"Spark did not start on {settings.master} ({last_cause(str(error))}): does a master of this version "
            "of Spark answer there?"
        ) from error


@contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    """Context manager: set environment variables inside."""
    before = {key: os.environ.get(key) for key in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                os.environ.pop(key, None)
            else:
                os.environ[key] = value


def _stop(spark: SparkSession, level: int = logging.WARNING) -> None:
    """Stop the session and forget its gateway, so that another one can be started in this process."""
    # PySpark would wait up to a second, until it polls its accumulators again. Their server is shut down in a thread.
    context = spark.sparkContext
    accumulators, context._accumulatorServer = context._accumulatorServer, None  # type: ignore[assignment]
    accumulators.handle_error = _ignore  # type: ignore[assignment]  # it may poll after the JVM's end
    try:
        with warnings.catch_warnings():  # PySpark warns if the JVM has ended before
            warnings.simplefilter("ignore", RuntimeWarning)
            spark.stop()
    except (Py4JError, OSError) as error:
        log.log(level, "Spark did not stop in order: %s", error)
    Thread(target=accumulators.shutdown, name="accumulators", daemon=True).start()
    _forget_gateway(level)


def _ignore(*_: object) -> None:
    """Print no traceback on standard error."""


def _kill_submitted() -> None:
    """Kill the JVM that spark-submit started, if there is one."""
    submitted = getattr(SparkContext._gateway, "proc", None)
    if submitted is not None:
        submitted.kill()


def _forget_gateway(level: int = logging.WARNING) -> None:
    """Close the gateway, and end the JVM if spark-submit started it."""
    gateway = SparkContext._gateway
    SparkContext._gateway = None
    SparkContext._jvm = None
    if gateway is None:
        return
    try:
        gateway.shutdown()
    except (Py4JError, OSError) as error:
        log.log(level, "Spark's gateway did not stop in order: %s", error)
    if submitted := getattr(gateway, "proc", None):
        end_jvm(submitted, STOP_TIMEOUT_S)


MEMBERS = {
    "org.apache.spark.sql.functions": ("expr", "col", "lit", "broadcast"),
    "functions": ("expr", "col", "lit", "broadcast"),
    "PythonUtils": ("toSeq",),
    "PythonSQLUtils": (),
}
"""Classes that PySpark looks up for each expression, and their members."""


def remember_classes(spark: SparkSession) -> None:
    """Look up these classes once for the session.

    By default PySpark asks the JVM for them each time. The JVM then searches all its jars for packages of that name,
    which takes about a second of every verdict.
    """
    view = spark._jvm
    assert view is not None
    for name, members in MEMBERS.items():
        cls = getattr(view, name)
        setattr(view, name, cls)
        for member in members:
            setattr(cls, member, getattr(cls, member))


@contextmanager
def interruptible(pending: "StartingSpark", end_others: Callable[[], object]) -> Iterator[None]:
    """Context manager: inside, a Ctrl-C ends Spark too, and calls `end_others`. A thread that waits for an answer of
    Spark gets an error, and then the interrupt.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return

    def on_signal(number: int, frame: FrameType | None) -> None:
        try:
            before(number, frame)
        except KeyboardInterrupt:
            logging.getLogger().addFilter(_is_not_lost_answer)  # py4j logs each answer that did not come
            pending.kill()
            end_others()
            raise

    signal.signal(signal.SIGINT, on_signal)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if pending.killed:
            pending.close()
        logging.getLogger().removeFilter(_is_not_lost_answer)


def _is_not_lost_answer(record: logging.LogRecord) -> bool:
    return "while sending command" not in record.getMessage()


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
    spark: SparkSession, conf: Mapping[str, str], folder: Path, needed: Sequence[str]
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


def _try_python(spark: SparkSession, needed: Sequence[str]) -> None:
    """Have every core import what a task needs."""
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
