"""A class-data archive for brokers: their classes, parsed once, so that they start in half the time.

Made by running one broker until it is ready, and ending it with SIGTERM. It fits one Java, one class
path and one set of flags; a JVM that finds it does not fit goes on without it. Java 17 to 24 make an
AppCDS archive, 25 and later an AOT cache.
"""

import hashlib
import logging
import shutil
from pathlib import Path, PurePath

from harness.common.errors import EnvironmentFailure, StartFailed
from harness.common.waiting import wait_for
from harness.environment.builder import Builder
from harness.environment.cache import provide
from harness.environment.java import Java
from harness.environment.jvm import STORAGE_TOOL, broker_command, jvm_flags
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
_log = logging.getLogger(__name__)


def archive_path(java: Java, kafka: KafkaDistribution, cache: Path) -> Path:
    """Where the archive lies, or will lie. Another build of Java, or jars copied anew, need another one."""
    times = [path.stat().st_mtime_ns if path.exists() else 0 for path in kafka.class_path]
    what = repr((java.home, java.release, jvm_flags(java), kafka.class_path, times))
    key = hashlib.sha256(what.encode()).hexdigest()[:12]
    return cache / f"archive-kafka-{kafka.version}-java-{java.version}-{key}" / _FILE


def archive_flags(
    java: Java, kafka: KafkaDistribution, cache: Path, *, builder: Builder | None = None
) -> list[str]:
    """The flags of a JVM that uses the archive, which is made first if it is missing.

    None if it cannot be made: brokers then only start more slowly, and why is logged.
    """
    place = archive_path(java, kafka, cache)

    def build(folder: Path) -> None:
        if builder:
            _make(folder, java, kafka, cache, builder)
        else:
            with Builder() as own:
                _make(folder, java, kafka, cache, own)

    try:
        provide(cache, place.parent.name, build, disk_mb=NEEDS_MB)
    except EnvironmentFailure as error:
        _log.warning(
            "brokers start a few seconds more slowly, for an archive of their classes could not be made (%s): the run "
            "goes on without it, and the next one tries again",
            error,
        )
        return []
    return flags_for(java.version, place)


def flags_for(java_version: int, place: PurePath) -> list[str]:
    """The flags of a JVM that uses an archive at this place."""
    if java_version < _AOT_SINCE:
        return [f"-XX:SharedArchiveFile={place}"]
    return [f"-XX:AOTCache={place}", "-Xlog:aot*=error"]  # it warns of stubs that it then makes itself


def _make(folder: Path, java: Java, kafka: KafkaDistribution, cache: Path, builder: Builder) -> None:
    work = folder / "work"
    work.mkdir()
    archive, config, output = folder / _FILE, work / "server.properties", work / "output"
    making = "AOTCacheOutput" if java.version >= _AOT_SINCE else "ArchiveClassesAtExit"
    with PortBlock(cache) as ports:
        config.write_text(
            _CONFIG.format(broker=ports.take(), controller=ports.take(), data=work / "data"), encoding="utf-8"
        )
        args = ["format", "--cluster-id=AAAAAAAAAAAAAAAAAAAAAA", f"--config={config}"]
        command = broker_command(java, kafka, main=STORAGE_TOOL, args=args, folder=work)
        tool = builder.spawn(command, name="Kafka's StorageTool", log_file=output, cwd=work)
        if tool.wait(_FORMAT_TIMEOUT_S) != 0:
            raise StartFailed(f"Kafka's StorageTool failed: {_last(output)}")
        command = broker_command(
            java, kafka, args=[config], folder=work, archive_flags=[f"-XX:{making}={archive}"]
        )
        broker = builder.spawn(command, name="the archive's broker", log_file=output, cwd=work)

        def ready() -> bool:
            if broker.poll() is not None:
                raise StartFailed(f"the archive's broker did not start: {_last(output)}")
            return _READY in output.read_text(errors="replace")

        wait_for(ready, "the archive's broker to start", _START_TIMEOUT_S, last_seen=lambda: _last(output))
        broker.stop(_DUMP_TIMEOUT_S)
    if not archive.exists():
        raise StartFailed(f"{java.executable} wrote none: {_last(output)}")
    shutil.rmtree(work)


def _last(output: Path) -> str:
    """The last line that a process printed."""
    lines = output.read_text(errors="replace").split("\n")
    return next((line.strip()[:300] for line in reversed(lines) if line.strip()), "nothing was printed")
