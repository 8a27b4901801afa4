"""Starting Spark, quickly and without leaving anything behind.

On a local master the driver's JVM is started directly, without spark-submit: that works on a bare JRE,
takes an archive of loaded classes (`make_archive`), and lets the JVM come up in the background while a
run's last seconds pass. The JVM ends when its standard input closes, so it cannot outlive this process,
whatever ends it. Any other master is reached by spark-submit, the way PySpark does it, so that the settings
of a Spark that is installed hold; so is a local one with settings that only spark-submit understands.
"""

import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from checkers.spark.conf import spark_conf
from checkers.spark.jvm import (
    ARCHIVE_TIMEOUT_S,
    STOP_TIMEOUT_S,
    SparkSettings,
    driver_flags,
    end_jvm,
    find_java,
    first_line,
    last_cause,
    make_archive,
    start_jvm,
    wait_for_gateway,
)
from checkers.spark.lookups import remember_classes
from checkers.spark.remote import prepare_workers, reach_master, require_full_jdk
from harness.common.errors import EnvironmentFailure, FencepostError, StartFailed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SparkSettings", "StartingSpark", "make_archive", "session", "start_spark"]

log = logging.getLogger(__name__)
logging.getLogger("py4j").setLevel(logging.CRITICAL)  # a traceback for each call into a JVM that has ended
logging.getLogger().addFilter(
    lambda told: not told.pathname.endswith("py4j/java_gateway.py")
)  # it tells the root, too


class StartingSpark:
    """A Spark that is coming up. `session()` waits for it, `close()` ends it; it is a context manager too."""

    def __init__(self, settings: SparkSettings) -> None:
        self._settings = settings
        self._folder = Path(tempfile.mkdtemp(prefix="fencepost-spark-"))
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        self._jvm: subprocess.Popen[bytes] | None = None
        self.killed = self._closed = False
        try:
            if settings.direct:
                self._jvm = start_jvm(settings, self._folder, self._said.fileno())
            _import_pyspark()
        except BaseException:
            self._forget()
            raise
        self._opening = ThreadPoolExecutor(max_workers=1, thread_name_prefix="spark")
        self._opened = self._opening.submit(_connect, settings, self._folder, self._jvm)

    def session(self) -> "SparkSession":
        """The session, as soon as it is there; raises `EnvironmentFailure`."""
        error = self._opened.exception()
        if error is None:
            return self._opened.result()
        if isinstance(error, EnvironmentFailure) and not self._last_words():
            raise error
        raise StartFailed(f"Spark did not start: {first_line(error)}{self._last_words()}") from error

    def kill(self) -> None:
        """End the JVM now, in the middle of whatever it does; `close()` is still to be called."""
        self.killed = True
        if self._jvm is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._jvm.pid, signal.SIGKILL)
        else:
            _kill_submitted()

    def close(self) -> None:
        """End Spark and its JVM, and remove its folder. What fails on the way is logged."""
        if self._closed:
            return
        self._closed = True
        if self._jvm is not None and not self._opened.done():
            self.killed = True  # it may have come up all the same, and is not there to be stopped
            end_jvm(self._jvm, 0)
        if self._opened.exception() is None:
            _stop(self._opened.result(), logging.DEBUG if self.killed else logging.WARNING)
        self._opening.shutdown()
        if self._jvm is not None:
            end_jvm(self._jvm, self._patience_s())
        self._forget()

    def _patience_s(self) -> float:
        """How long the JVM may take to end by itself, once Spark has stopped: it has nothing more to do then, unless it
        was told otherwise, or has something to clear away elsewhere than in our folder.
        """
        if self._settings.java_flags:
            return ARCHIVE_TIMEOUT_S
        return STOP_TIMEOUT_S if self._settings.conf or "SPARK_LOCAL_DIRS" in os.environ else 0.0

    def _forget(self) -> None:
        self._said.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> "SparkSession":
        try:
            return self.session()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()

    def _last_words(self) -> str:
        """The end of what the JVM said, if it said anything."""
        self._said.seek(0)
        lines = self._said.read().decode(errors="replace").strip().splitlines()
        return f" ({lines[-1].strip()})" if lines else ""


def _import_pyspark() -> None:
    """Import PySpark in the caller's thread, while the JVM comes up, and before any other thread can import it.

    Its modules import each other. If two threads import them at once, Python breaks the deadlock by handing out a
    module that is not complete, and one of the threads fails with an ImportError.
    """
    import_module("pyspark.errors")
    import_module("pyspark.sql")


def start_spark(settings: SparkSettings) -> StartingSpark:
    """Start Spark in the background and return at once; raises `EnvironmentFailure` without Java."""
    return StartingSpark(settings)


@contextmanager
def session(settings: SparkSettings) -> Iterator["SparkSession"]:
    """Spark for the length of a `with`."""
    with start_spark(settings) as spark:
        yield spark


def _connect(settings: SparkSettings, folder: Path, jvm: "subprocess.Popen[bytes] | None") -> "SparkSession":
    """Join the gateway, if there is one, make the session, and see to it that it can work."""
    if python := settings.conf.get("spark.pyspark.python"):
        os.environ["PYSPARK_PYTHON"] = python
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = _make(settings, folder, jvm)
    try:
        remember_classes(spark)
        # Or a Python worker would look for our rooms in the folder that the user happens to be in.
        spark.sparkContext.environment["PYTHONSAFEPATH"] = "1"
        if not settings.local:
            prepare_workers(spark, settings.conf, folder, settings.needed)
        elif settings.warm_up:  # with files that other machines would not see
            _try_to_warm_up(settings.warm_up, spark, folder)  # which goes with the JVM, whatever ends us
    except BaseException:
        _stop(spark)
        raise
    return spark


def _try_to_warm_up(
    warm_up: "Callable[[SparkSession, Path], object]", spark: "SparkSession", folder: Path
) -> None:
    """A Spark that is cold judges all the same; one that has ended does not."""
    from checkers.spark.errors import has_ended

    try:
        warm_up(spark, folder)
    except (FencepostError, OSError) as error:
        if has_ended():
            raise
        log.warning("Spark is not warmed up (%s): the verdict takes some seconds longer", first_line(error))


def _make(settings: SparkSettings, folder: Path, jvm: "subprocess.Popen[bytes] | None") -> "SparkSession":
    """The session itself; raises `EnvironmentFailure`."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    here = reach_master(settings.master)
    if jvm is not None:
        port, secret = wait_for_gateway(folder / "gateway", jvm)
        told = {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}
    else:
        require_full_jdk(find_java(settings.java_home)[0])
        told = {"SPARK_SUBMIT_OPTS": driver_flags(settings, folder)}
        if settings.java_home:
            os.environ["JAVA_HOME"] = str(settings.java_home)
    try:
        with _environment(told):
            builder = SparkSession.builder.master(settings.master).appName("fencepost")
            for key, value in spark_conf(settings, folder, here).items():
                builder = builder.config(key, value)
            return builder.getOrCreate()
    except (Py4JError, PySparkException, OSError) as error:  # OSError: the JVM has ended meanwhile
        _forget_gateway()
        if settings.local:
            raise
        raise StartFailed(
            f"Spark did not start on {settings.master} ({last_cause(str(error))}): does a master of this version "
            "of Spark answer there?"
        ) from error


@contextmanager
def _environment(told: dict[str, str]) -> Iterator[None]:
    """Our environment with more in it, for the length of a `with`."""
    before = {key: os.environ.get(key) for key in told}
    os.environ.update(told)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                os.environ.pop(key, None)
            else:
                os.environ[key] = value


def _stop(spark: "SparkSession", level: int = logging.WARNING) -> None:
    """Stop the session and forget its gateway, so that another can be started in this process."""
    from py4j.protocol import Py4JError

    # PySpark waits until it has looked at its accumulators once more, which it does every second: we do not.
    context = spark.sparkContext
    accumulators, context._accumulatorServer = context._accumulatorServer, None  # type: ignore[assignment]
    accumulators.handle_error = _say_nothing  # type: ignore[assignment]  # it may look after the JVM's end
    try:
        with warnings.catch_warnings():  # of PySpark's, where the JVM has gone before
            warnings.simplefilter("ignore", RuntimeWarning)
            spark.stop()
    except (Py4JError, OSError) as error:
        log.log(level, "Spark did not stop in order: %s", error)
    Thread(target=accumulators.shutdown, name="accumulators", daemon=True).start()
    _forget_gateway(level)


def _say_nothing(*_: object) -> None:
    """In place of a traceback on standard error."""


def _kill_submitted() -> None:
    """Kill the JVM that spark-submit started, if there is one."""
    from pyspark import SparkContext

    submitted = getattr(SparkContext._gateway, "proc", None)
    if submitted is not None:
        submitted.kill()


def _forget_gateway(level: int = logging.WARNING) -> None:
    """Close it, and end the JVM if spark-submit started it."""
    from py4j.protocol import Py4JError
    from pyspark import SparkContext

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
