"""The driver's JVM: find Java, choose the flags, start it directly, and make its archive of loaded classes."""

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
OPENED_PACKAGES = [
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
SUBMIT_PREFIXES = ("spark.jars", "spark.driver.extra", "spark.driver.default", "spark.submit")
"""Prefixes of settings that only spark-submit understands."""
FIRST_JARS = ("spark-", "scala-library")
"""Prefixes of the jars with most of the classes. The JVM searches the jars in order for each class."""
COLLECTOR = "-XX:+UseParallelGC"
SMALL_HEAP = ("-XX:TieredStopAtLevel=1", COLLECTOR)
"""Flags for a JVM that checks little: it starts sooner, and compiles less."""
LARGE_HEAP = (COLLECTOR, "-XX:FreqInlineSize=80", "-XX:MaxInlineLevel=7", "-XX:InlineSmallCode=1000")
"""Flags for a JVM that checks much.

Each query has generated code that lives for seconds. By default the JVM inlines so much of it that compiling takes a
third of an analysis. With these limits it takes a quarter, and the compiled code is as fast.
"""
SMALL_PAGE = "512k"
"""How much memory a sort, an aggregation and a broadcast each allocate at first, if little is checked.

By default Spark allocates up to 32 MB however little there is to sort: gigabytes in a second, and the garbage collector
runs as often.
"""
CAUSE = re.compile(r"^(?:(?:Caused by)?: )?(?:[\w.]+(?:Error|Exception)): (.+)$", re.MULTILINE)
LOG_CONFIG = """\
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
    """How Spark is started."""

    java_home: Path | None = None  # None: JAVA_HOME, else the Java on the path
    master: str = "local[*]"
    conf: Mapping[str, str] = field(default_factory=dict)
    size: Literal["small", "large"] = "small"  # small: up to about a million rows
    archive: Path | None = None  # made by `archive_command` with the same Java
    java_flags: tuple[str, ...] = ()  # more flags for the driver's JVM
    warm_up: "Callable[[SparkSession], object] | None" = None
    """Is called before the first check, so that the JVM compiles the code that checks need."""
    needed: tuple[str, ...] = ()  # modules that tasks import on other machines

    @property
    def local(self) -> bool:
        """True if everything runs in the driver's own JVM."""
        return self.master.startswith("local")

    @property
    def heap(self) -> str:
        """The memory of the driver's JVM in Java's form, as in `4g`. Spark also takes `4gb`, and `4096` for MB."""
        memory = self.conf.get("spark.driver.memory", "1g" if self.size == "small" else "4g").strip().lower()
        return f"{memory}m" if memory.isdecimal() else memory.removesuffix("b")

    @property
    def direct(self) -> bool:
        """True if the driver's JVM can be started without spark-submit."""
        return self.local and not any(key.startswith(SUBMIT_PREFIXES) for key in self.conf)


def find_java(java_home: Path | None) -> tuple[Path, int]:
    """Return the `java` to start, and its feature version. Raises `EnvironmentFailure` if there is none."""
    java_env = os.environ.get("JAVA_HOME")
    java_on_path = shutil.which("java") if java_home is None and not java_env else None
    home = java_home or (
        Path(java_env) if java_env else Path(java_on_path).resolve().parent.parent if java_on_path else None
    )
    if home is None or not (home / "bin" / "java").exists():
        raise EnvironmentFailure(
            f"Spark needs Java 17 or newer, and there is none {f'in {home}' if home else 'on the path'}: "
            "set its folder with `--set java=FOLDER`, or use `--set java=bundled`"
        )
    java = home / "bin" / "java"
    with suppress(OSError):
        if version := re.search(
            r'JAVA_VERSION="(?:1\.)?(\d+)', (home / "release").read_text(encoding="utf-8")
        ):
            return java, int(version[1])
    output = subprocess.run(
        [java, "-version"], capture_output=True, text=True, check=False, encoding="utf-8", errors="replace"
    ).stderr
    version = re.search(r'version "(?:1\.)?(\d+)', output)
    return java, int(version[1]) if version else 17


def archive_command(java_home: Path, java_version: int, path: Path, module: str) -> list[str]:
    """Return the command that makes the archive of loaded classes for `SparkSettings.archive`.

    It takes as long as a cold start. The file has some 100 MB. It works only with this Java and this Spark; others
    ignore it.

    Args:
        module: the module to run, with a flag of the JVM and a Java home as arguments; it must check a small history
            and end
    """
    option = "AOTCacheOutput" if java_version >= 25 else "ArchiveClassesAtExit"
    return [sys.executable, "-P", "-m", module, f"-XX:{option}={path}", str(java_home)]


def class_path() -> list[Path]:
    """Return Spark's jars. The jars with most of the classes come first. An archive works for one order only."""
    spec = find_spec("pyspark")  # not imported: that is done while the JVM starts
    assert spec is not None and spec.origin is not None, "PySpark is one of our dependencies"
    jars = (Path(spec.origin).parent / "jars").glob("*.jar")
    return sorted(jars, key=lambda jar: (not jar.name.startswith(FIRST_JARS), jar.name))


def java_command(settings: SparkSettings, folder: Path) -> list[str]:
    """Return the command line of the driver's JVM. Raises `EnvironmentFailure` if its Java is missing or too old."""
    java, version = find_java(settings.java_home)
    if version < 17:
        raise EnvironmentFailure(
            f"Spark needs Java 17 or newer, and {java} is {version}: set another Java with `--set java=FOLDER`"
        )
    flags = [
        f"-Xmx{settings.heap}",
        "-XX:+IgnoreUnrecognizedVMOptions",
        "-Dlog4j2.disable.jmx=true",
    ]
    if settings.size == "small":
        # The page size is set as a property too, because Spark builds broadcasts without the session's settings.
        flags += [*SMALL_HEAP, "-XX:ReservedCodeCacheSize=256m", f"-Dspark.buffer.pageSize={SMALL_PAGE}"]
        # Allocate everything at the start, because each time that memory grows costs a collection.
        flags += [f"-Xms{settings.heap}", "-XX:MetaspaceSize=256m"]
    else:
        flags += LARGE_HEAP
    if version >= 23:
        flags.append("--sun-misc-unsafe-memory-access=allow")
    if settings.archive and settings.archive.exists():
        flags.append(f"-XX:{'AOTCache' if version >= 25 else 'SharedArchiveFile'}={settings.archive}")
        flags += ["-Xlog:disable", "-Xlog:all=off"]
    flags += [f"--add-opens={package}=ALL-UNNAMED" for package in OPENED_PACKAGES]
    flags += ["--enable-native-access=ALL-UNNAMED", "-Dio.netty.tryReflectionSetAccessible=true"]
    flags += [f"-Dlog4j2.configurationFile={folder / 'log4j2.properties'}", f"-Djava.io.tmpdir={folder}"]
    main = "org.apache.spark.api.python.PythonGatewayServer"
    return [str(java), *flags, *settings.java_flags, "-cp", os.pathsep.join(map(str, class_path())), main]


def driver_flags(settings: SparkSettings, folder: Path) -> str:
    """Return the flags for a driver's JVM that spark-submit starts: ours, and after them the user's."""
    (folder / "log4j2.properties").write_text(LOG_CONFIG, encoding="utf-8")
    flags = [f"-Dlog4j2.configurationFile={folder / 'log4j2.properties'}"]
    if settings.size == "small":
        flags += SMALL_HEAP
    return " ".join([*flags, os.environ.get("SPARK_SUBMIT_OPTS", "")]).strip()


def start_jvm(settings: SparkSettings, folder: Path, out: int) -> "subprocess.Popen[bytes]":
    """Start the gateway's JVM. It writes its port to `gateway` in `folder`, and its output to the file `out`.

    It ends when its standard input closes. The shell that waits for it then removes `folder`. So neither remains if
    this process is killed.
    """
    (folder / "log4j2.properties").write_text(LOG_CONFIG, encoding="utf-8")
    environment = {"_PYSPARK_DRIVER_CONN_INFO_PATH": str(folder / "gateway"), "SPARK_CONNECT_MODE": "0"}
    guard = ["/bin/sh", "-c", '"$@"; status=$?; rm -rf -- "$0"; exit $status', str(folder)]
    try:
        return subprocess.Popen(
            [*guard, *java_command(settings, folder)],
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=out,
            env={**os.environ, **environment},
            start_new_session=True,  # a Ctrl-C at the terminal must reach this process only
        )
    except OSError as error:
        raise EnvironmentFailure(f"Java could not be started for Spark: {error}") from error


def wait_for_gateway(path: Path, jvm: "subprocess.Popen[bytes]") -> tuple[int, str]:
    """Return port and secret of the gateway, from the file that the JVM writes when it is ready.

    Raises:
        StartFailed: the JVM did not get ready, or ended.
    """

    def ready() -> bool:
        return path.exists() or jvm.poll() is not None

    try:
        wait_for(ready, "Spark's JVM to open its gateway", START_TIMEOUT_S)
    except WaitTimeout as error:
        raise StartFailed(f"Spark did not start: {error}") from error
    if not path.exists():
        raise StartFailed(f"Spark's JVM ended with status {jvm.returncode} before it was ready")
    content = path.read_bytes()
    port, length = struct.unpack(">ii", content[:8])
    return port, content[8 : 8 + length].decode()


def end_jvm(jvm: "subprocess.Popen[bytes]", timeout_s: float) -> None:
    """Close the JVM's standard input, which ends it, and wait. Kill it after `timeout_s`."""
    if jvm.stdin and not jvm.stdin.closed:
        with suppress(OSError):
            jvm.stdin.close()
    try:
        jvm.wait(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        if timeout_s:
            log.warning("Spark's JVM %d did not end by itself and was killed", jvm.pid)
        # A JVM that spark-submit started is in our own process group, so the group must not be killed.
        with suppress(ProcessLookupError):  # it has just ended
            (os.killpg if os.getpgid(jvm.pid) == jvm.pid else os.kill)(jvm.pid, signal.SIGKILL)
        jvm.wait()


def first_line(error: BaseException | None) -> str:
    """Return the first line of an error's message, or its class name."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def last_cause(trace: str) -> str:
    """Return the last cause that a Java stack trace names, in one line."""
    causes = [text for text in CAUSE.findall(trace) if text.strip()]
    return causes[-1].strip() if causes else trace.strip().partition("\n")[0]
