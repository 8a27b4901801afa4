"""Starting Spark, quickly and without leaving anything behind.

On a local master the driver's JVM is started directly, without spark-submit: that works on a bare JRE,
takes an archive of loaded classes (`make_archive`), and lets the JVM come up in the background while a
run's last seconds pass. The JVM ends when its standard input closes, so it cannot outlive this process,
whatever ends it. Any other master is reached the way PySpark does it.
"""

import logging
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from harness.errors import EnvironmentFailure, StartFailed, WaitTimeout
from harness.waiting import wait_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 20.0
ARCHIVE_TIMEOUT_S = 300.0
OPENED = ["java.base/java.lang", "java.base/java.lang.invoke", "java.base/java.lang.reflect", "java.base/java.io", "java.base/java.net", "java.base/java.nio", "java.base/java.util", "java.base/java.util.concurrent", "java.base/java.util.concurrent.atomic", "java.base/jdk.internal.ref", "java.base/sun.nio.ch", "java.base/sun.nio.cs", "java.base/sun.security.action", "java.base/sun.util.calendar", "java.security.jgss/sun.security.krb5"]
QUIET = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
"""


@dataclass(frozen=True)
class SparkSettings:
    """How Spark is started. `java_home` None: JAVA_HOME, else the Java on the path."""

    java_home: Path | None = None
    master: str = "local[*]"
    conf: Mapping[str, str] = field(default_factory=dict)
    size: Literal["small", "large"] = "small"  # up to about a million rows, or more
    archive: Path | None = None  # of `make_archive`, of the same Java
    memory_mb: int | None = None
    java_flags: tuple[str, ...] = ()  # more flags for the driver's JVM

    @property
    def local(self) -> bool:
        """Whether everything runs in the driver's own JVM."""
        return self.master.startswith("local")


class Pending:
    """A Spark that is coming up. `session()` waits for it, `close()` ends it; it is a context manager too."""

    def __init__(self, settings: SparkSettings) -> None:
        self._settings = settings
        self._folder = Path(tempfile.mkdtemp(prefix="fencepost-spark-"))
        self._spark: SparkSession | None = None
        self._error: Exception | None = None
        self._jvm: subprocess.Popen[bytes] | None = None
        self._closing = False
        try:
            if settings.local:
                self._jvm = _start_jvm(settings, self._folder)
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        self._thread = threading.Thread(target=self._open, name="spark", daemon=True)
        self._thread.start()

    def session(self) -> "SparkSession":
        """The session, as soon as it is there; raises `EnvironmentFailure`."""
        self._thread.join()
        if self._spark is not None:
            return self._spark
        if isinstance(self._error, EnvironmentFailure):
            raise self._error
        raise StartFailed(
            f"Spark did not start: {_first_line(self._error)}{self._last_words()}"
        ) from self._error

    def close(self) -> None:
        """End Spark and its JVM, and remove its folder. What fails on the way is logged."""
        self._closing = True
        if self._jvm is not None and self._spark is None and self._jvm.stdin:
            self._jvm.stdin.close()
        self._thread.join(timeout=STOP_TIMEOUT_S)
        if self._spark is not None:
            _stop(self._spark)
            self._spark = None
        if self._jvm is not None:
            _end(self._jvm, ARCHIVE_TIMEOUT_S if self._settings.java_flags else STOP_TIMEOUT_S)
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> "SparkSession":
        try:
            return self.session()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self) -> None:
        try:
            self._spark = _connect(self._settings, self._folder, self._jvm)
        except Exception as error:  # noqa: BLE001 - kept, and raised where the session is asked for
            self._error = error

    def _last_words(self) -> str:
        """The end of what the JVM said, if it said anything."""
        with suppress(OSError):
            lines = (self._folder / "jvm.log").read_text(errors="replace").strip().splitlines()
            return f" ({lines[-1].strip()})" if lines else ""
        return ""


def begin(settings: SparkSettings) -> Pending:
    """Start Spark in the background and return at once; raises `EnvironmentFailure` without Java."""
    return Pending(settings)


@contextmanager
def session(settings: SparkSettings) -> Iterator["SparkSession"]:
    """Spark for the length of a `with`."""
    with begin(settings) as spark:
        yield spark


def find_java(java_home: Path | None) -> tuple[Path, int]:
    """The `java` to start and its feature version; raises `EnvironmentFailure` if there is none."""
    named = os.environ.get("JAVA_HOME")
    found = shutil.which("java") if java_home is None and not named else None
    home = java_home or (Path(named) if named else Path(found).resolve().parent.parent if found else None)
    if home is None or not (home / "bin" / "java").exists():
        raise EnvironmentFailure(
            f"Spark needs Java 17 or newer, and there is none {f'in {home}' if home else 'on the path'}: "
            "name its folder with `--set java=FOLDER`, or use `--set java=bundled`"
        )
    java = home / "bin" / "java"
    with suppress(OSError):
        if version := re.search(r'JAVA_VERSION="(?:1\.)?(\d+)', (home / "release").read_text()):
            return java, int(version[1])
    told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(?:1\.)?(\d+)', told)
    return java, int(version[1]) if version else 17


def make_archive(settings: SparkSettings, path: Path) -> Path:
    """Make the archive of loaded classes that `SparkSettings.archive` takes, unless `path` is there.

    Runs a small history once, so it takes as long as a cold start; the file has some 100 MB and is good
    for this Java and this Spark only (another one ignores it). Written beside `path` and renamed, so
    that two who make it at once do no harm.
    """
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    _, version = find_java(settings.java_home)
    flag = f"-XX:AOTCacheOutput={part}" if version >= 25 else f"-XX:ArchiveClassesAtExit={part}"
    command = [sys.executable, "-P", "-m", "checkers.warm", flag]
    if settings.java_home:
        command.append(str(settings.java_home))
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    if done.returncode != 0 or not part.exists():
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        part.unlink(missing_ok=True)
        raise EnvironmentFailure(f"the archive of Spark's classes could not be made: {last}")
    part.replace(path)
    return path


def java_command(settings: SparkSettings, folder: Path) -> list[str]:
    """The command line of the driver's JVM."""
    import pyspark

    java, version = find_java(settings.java_home)
    if version < 17:
        raise EnvironmentFailure(
            f"Spark needs Java 17 or newer, and {java} is {version}: name another with `--set java=FOLDER`"
        )
    jars = sorted((Path(pyspark.__file__).parent / "jars").glob("*.jar"))
    memory = settings.memory_mb or (1024 if settings.size == "small" else 4096)
    flags = [
        f"-Xmx{memory}m",
        "-XX:+IgnoreUnrecognizedVMOptions",
        "-Dlog4j2.disable.jmx=true",
    ]
    if settings.size == "small":
        flags += ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    if version >= 23:
        flags.append("--sun-misc-unsafe-memory-access=allow")
    if settings.archive and settings.archive.exists():
        flags.append(f"-XX:{'AOTCache' if version >= 25 else 'SharedArchiveFile'}={settings.archive}")
        flags += ["-Xlog:disable", "-Xlog:all=off"]
    flags += [f"--add-opens={package}=ALL-UNNAMED" for package in OPENED]
    flags += ["--enable-native-access=ALL-UNNAMED", "-Dio.netty.tryReflectionSetAccessible=true"]
    flags += [f"-Dlog4j2.configurationFile={folder / 'log4j2.properties'}", f"-Djava.io.tmpdir={folder}"]
    main = "org.apache.spark.api.python.PythonGatewayServer"
    return [str(java), *flags, *settings.java_flags, "-cp", os.pathsep.join(map(str, jars)), main]


def _start_jvm(settings: SparkSettings, folder: Path) -> "subprocess.Popen[bytes]":
    """The gateway's JVM; it tells its port in `gateway` of `folder`, and logs to `jvm.log`."""
    (folder / "log4j2.properties").write_text(QUIET)
    environment = {
        **os.environ,
        "_PYSPARK_DRIVER_CONN_INFO_PATH": str(folder / "gateway"),
        "SPARK_CONNECT_MODE": "0",
    }
    try:
        with (folder / "jvm.log").open("wb") as out:
            return subprocess.Popen(
                java_command(settings, folder),
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=out,
                env=environment,
                cwd=folder,
                start_new_session=True,  # a Ctrl-C at the terminal is for us, not for it
            )
    except OSError as error:
        raise EnvironmentFailure(f"Java could not be started for Spark: {error}") from error


def _connect(settings: SparkSettings, folder: Path, jvm: "subprocess.Popen[bytes] | None") -> "SparkSession":
    """Join the gateway, if there is one, and make the session."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    borrowed: dict[str, str] = {}
    if jvm is not None:
        port, secret = _gateway(folder / "gateway", jvm)
        borrowed = {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}
    elif settings.java_home:
        os.environ["JAVA_HOME"] = str(settings.java_home)
    os.environ.update(borrowed)
    try:
        builder = SparkSession.builder.master(settings.master).appName("fencepost")
        for key, value in spark_conf(settings, folder).items():
            builder = builder.config(key, value)
        spark = builder.getOrCreate()
    finally:
        for key in borrowed:
            os.environ.pop(key, None)
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def spark_conf(settings: SparkSettings, folder: Path) -> dict[str, str]:
    """Spark's settings: ours, and on top of them the user's."""
    small = settings.size == "small"
    ours = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2" if small else "16",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # Lists are gathered by sorting: by hashing it takes twice the time, and does not spill.
        "spark.sql.execution.useObjectHashAggregateExec": "false",
        "spark.sql.autoBroadcastJoinThreshold": str(32 << 20),
        "spark.sql.maxPlanStringLength": "2000",
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.log.level": "ERROR",
    }
    if settings.local:
        ours |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.local.dir": str(folder / "local"),
        }
    return {**ours, **settings.conf}


def _gateway(told: Path, jvm: "subprocess.Popen[bytes]") -> tuple[int, str]:
    """Port and secret of the gateway, from the file that it writes when it is ready."""

    def ready() -> bool:
        return told.exists() or jvm.poll() is not None

    try:
        wait_for(ready, "Spark's JVM to open its gateway", START_TIMEOUT_S)
    except WaitTimeout as error:
        raise StartFailed(f"Spark did not start: {error}") from error
    if not told.exists():
        raise StartFailed(f"Spark's JVM ended with status {jvm.returncode} before it was ready")
    body = told.read_bytes()
    port, length = struct.unpack(">ii", body[:8])
    return port, body[8 : 8 + length].decode()


def _stop(spark: "SparkSession") -> None:
    """Stop the session and forget its gateway, so that another can be started in this process."""
    from py4j.protocol import Py4JError
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    try:
        spark.stop()
        if gateway is not None:
            gateway.shutdown()
    except (Py4JError, OSError) as error:
        log.warning("Spark did not stop in order: %s", error)
    SparkContext._gateway = None
    SparkContext._jvm = None


def _end(jvm: "subprocess.Popen[bytes]", timeout_s: float) -> None:
    """Close the JVM's standard input, which ends it, and wait."""
    if jvm.stdin and not jvm.stdin.closed:
        with suppress(OSError):
            jvm.stdin.close()
    try:
        jvm.wait(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        log.warning("Spark's JVM %d did not end by itself and was killed", jvm.pid)
        jvm.kill()
        jvm.wait()


def _first_line(error: BaseException | None) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
