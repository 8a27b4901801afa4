"""Make a class-data archive of the brokers' classes. With this archive, a broker starts in half the time.

The archive is made by running one broker until it is ready, and ending it with SIGTERM. It fits one Java, one class
path and one set of flags. A JVM that it does not fit ignores it. Java 17 to 24 make an AppCDS archive, Java 25 and
later an AOT cache.
"""

import hashlib
import shutil
from pathlib import Path, PurePath

from harness.common.errors import StartFailed
from harness.common.waiting import wait_for
from harness.environment.builder import Builder
from harness.environment.cache import provide
from harness.environment.java import Java
from harness.environment.java_commands import STORAGE_TOOL, broker_command, jvm_flags
from harness.environment.kafka import KafkaDistribution
from harness.environment.ports import PortBlock

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
    # The second flag hides warnings about missing stubs. The JVM then generates them itself.
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
