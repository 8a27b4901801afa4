"""Build the command line of every process that runs on Kafka's class path.

A class-data archive only fits the flags and the class path that it was made with. So brokers, Kafka's tools and the
maker of the archive get their command from one function.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.environment.java import Java
from harness.environment.kafka import KafkaDistribution
from harness.environment.kafka_versions import kafka_version

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
