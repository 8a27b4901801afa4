"""The driver's JVM: which Java, with which flags, started directly, and its archive of loaded classes."""

import logging
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from harness.common.errors import EnvironmentFailure, StartFailed, WaitTimeout
from harness.common.waiting import wait_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 20.0
ARCHIVE_TIMEOUT_S = 300.0
OPENED = [
    "java.base/java.lang",
    "java.base/java.lang.invoke",
    "java.base/java.lang.reflect",
    "java.base/java.io",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.base/sun.nio.cs",
    "java.base/sun.security.action",
    "java.base/sun.util.calendar",
    "java.security.jgss/sun.security.krb5",
]
SUBMITTED = ("spark.jars", "spark.driver.extra", "spark.driver.default", "spark.submit")
"""How settings begin that only spark-submit understands."""
FIRST = ("spark-", "scala-library")
"""How the jars begin in which most classes are: each look-up goes through the jars in their order."""
COLLECTOR = "-XX:+UseParallelGC"
SMALL_HEAP = ("-XX:TieredStopAtLevel=1", COLLECTOR)
"""Flags for a JVM that judges little: it comes up sooner, and compiles less."""
LARGE_HEAP = (COLLECTOR, "-XX:FreqInlineSize=80", "-XX:MaxInlineLevel=7", "-XX:InlineSmallCode=1000")
"""Flags for one that judges much: each query has code of its own, that lives for seconds. By itself the JVM inlines so
much of it that a third of an analysis is spent on compiling; with these limits a quarter, and what comes of it is as
fast.
"""
SMALL_PAGE = "512k"
"""How much memory a sort, an aggregation and a broadcast each take to begin with, where little is judged.
By itself Spark takes up to 32 MB, whatever there is to sort: gigabytes in a second, and the heap is collected as often.
"""
CAUSE = re.compile(r"^(?:(?:Caused by)?: )?(?:[\w.]+(?:Error|Exception)): (.+)$", re.MULTILINE)
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
    java_flags: tuple[str, ...] = ()  # more flags for the driver's JVM
    warm_up: "Callable[[SparkSession, Path], object] | None" = (
        None  # done first, so that what is needed is compiled
    )
    worker_daemon: str | None = (
        None  # the module that local Python workers are forked from; None: PySpark's own
    )
    needed: tuple[str, ...] = ()  # modules that tasks import on other machines

    @property
    def local(self) -> bool:
        """Whether everything runs in the driver's own JVM."""
        return self.master.startswith("local")

    @property
    def heap(self) -> str:
        """The memory of the driver's JVM."""
        return self.conf.get("spark.driver.memory", "1g" if self.size == "small" else "4g")

    @property
    def direct(self) -> bool:
        """Whether the driver's JVM can be started without spark-submit."""
        return self.local and not any(key.startswith(SUBMITTED) for key in self.conf)


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


def make_archive(settings: SparkSettings, path: Path, module: str) -> Path:
    """Make the archive of loaded classes that `SparkSettings.archive` takes, unless `path` is there.

    `module` is run with a flag of the JVM and a Java home: it judges a small history and ends. So it takes
    as long as a cold start. The file has some 100 MB and is good for this Java and this Spark only (another
    one ignores it). Written beside `path` and renamed, so that two who make it at once do no harm.
    """
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    _, version = find_java(settings.java_home)
    flag = f"-XX:AOTCacheOutput={part}" if version >= 25 else f"-XX:ArchiveClassesAtExit={part}"
    command = [sys.executable, "-P", "-m", module, flag]
    if settings.java_home:
        command.append(str(settings.java_home))
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    if done.returncode != 0 or not part.exists():
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        part.unlink(missing_ok=True)
        raise EnvironmentFailure(f"the archive of Spark's classes could not be made: {last}")
    part.replace(path)
    return path


def class_path() -> list[Path]:
    """Spark's jars, those first in which most classes are. An archive is good for one order of them only."""
    where = find_spec("pyspark")  # not loaded: that is done while the JVM comes up
    assert where is not None and where.origin is not None, "PySpark is one of our dependencies"
    found = (Path(where.origin).parent / "jars").glob("*.jar")
    return sorted(found, key=lambda jar: (not jar.name.startswith(FIRST), jar.name))


def java_command(settings: SparkSettings, folder: Path) -> list[str]:
    """The command line of the driver's JVM."""
    java, version = find_java(settings.java_home)
    if version < 17:
        raise EnvironmentFailure(
            f"Spark needs Java 17 or newer, and {java} is {version}: name another with `--set java=FOLDER`"
        )
    flags = [
        f"-Xmx{settings.heap}",
        "-XX:+IgnoreUnrecognizedVMOptions",
        "-Dlog4j2.disable.jmx=true",
    ]
    if settings.size == "small":
        # The page also as a property: Spark builds what it broadcasts with settings that are not the session's.
        flags += [*SMALL_HEAP, "-XX:ReservedCodeCacheSize=256m", f"-Dspark.buffer.pageSize={SMALL_PAGE}"]
        # All of it from the beginning: each step in which they grow is a collection.
        flags += [f"-Xms{settings.heap}", "-XX:MetaspaceSize=256m"]
    else:
        flags += LARGE_HEAP
    if version >= 23:
        flags.append("--sun-misc-unsafe-memory-access=allow")
    if settings.archive and settings.archive.exists():
        flags.append(f"-XX:{'AOTCache' if version >= 25 else 'SharedArchiveFile'}={settings.archive}")
        flags += ["-Xlog:disable", "-Xlog:all=off"]
    flags += [f"--add-opens={package}=ALL-UNNAMED" for package in OPENED]
    flags += ["--enable-native-access=ALL-UNNAMED", "-Dio.netty.tryReflectionSetAccessible=true"]
    flags += [f"-Dlog4j2.configurationFile={folder / 'log4j2.properties'}", f"-Djava.io.tmpdir={folder}"]
    main = "org.apache.spark.api.python.PythonGatewayServer"
    return [str(java), *flags, *settings.java_flags, "-cp", os.pathsep.join(map(str, class_path())), main]


def driver_flags(settings: SparkSettings, folder: Path) -> str:
    """Flags for a driver's JVM that spark-submit starts: quiet, and on top of them the user's."""
    (folder / "log4j2.properties").write_text(QUIET)
    flags = [f"-Dlog4j2.configurationFile={folder / 'log4j2.properties'}"]
    if settings.size == "small":
        flags += SMALL_HEAP
    return " ".join([*flags, os.environ.get("SPARK_SUBMIT_OPTS", "")]).strip()


def start_jvm(settings: SparkSettings, folder: Path, out: int) -> "subprocess.Popen[bytes]":
    """The gateway's JVM; it tells its port in `gateway` of `folder`, and speaks to the file `out`.

    It ends when its standard input closes, and the shell that waits for it then removes `folder`: so neither
    is left when this process is killed.
    """
    (folder / "log4j2.properties").write_text(QUIET)
    told = {"_PYSPARK_DRIVER_CONN_INFO_PATH": str(folder / "gateway"), "SPARK_CONNECT_MODE": "0"}
    guard = ["/bin/sh", "-c", '"$@"; status=$?; rm -rf -- "$0"; exit $status', str(folder)]
    try:
        return subprocess.Popen(
            [*guard, *java_command(settings, folder)],
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=out,
            env={**os.environ, **told},
            start_new_session=True,  # a Ctrl-C at the terminal is for us, not for it
        )
    except OSError as error:
        raise EnvironmentFailure(f"Java could not be started for Spark: {error}") from error


def wait_for_gateway(told: Path, jvm: "subprocess.Popen[bytes]") -> tuple[int, str]:
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


def end_jvm(jvm: "subprocess.Popen[bytes]", timeout_s: float) -> None:
    """Close the JVM's standard input, which ends it, and wait; kill it if that takes too long."""
    if jvm.stdin and not jvm.stdin.closed:
        with suppress(OSError):
            jvm.stdin.close()
    try:
        jvm.wait(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        if timeout_s:
            log.warning("Spark's JVM %d did not end by itself and was killed", jvm.pid)
        # One that spark-submit started is in our own group, and alone.
        with suppress(ProcessLookupError):  # it has ended just now
            (os.killpg if os.getpgid(jvm.pid) == jvm.pid else os.kill)(jvm.pid, signal.SIGKILL)
        jvm.wait()


def first_line(error: BaseException | None) -> str:
    """The first line of what an error says, or its name."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def last_cause(trace: str) -> str:
    """The last cause that a Java stack trace names, in a line."""
    told = [words for words in CAUSE.findall(trace) if words.strip()]
    return told[-1].strip() if told else trace.strip().partition("\n")[0]
