"""The one command line of everything that runs on Kafka's class path.

A class-data archive only fits the flags and the class path that it was made with, so brokers, the
tools beside them and the maker of the archive all take their command from here.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.environment.java import Java
from harness.environment.kafka import KafkaDistribution
from harness.environment.kafka_versions import kafka_version

BROKER = "kafka.Kafka"
STORAGE_TOOL = "kafka.tools.StorageTool"
NO_REQUESTS = "-Dfencepost.requests=/dev/null"
"""Where the requests go that are recorded, unless a later flag says otherwise: log4j 1 opens the file at once."""
LOGGING: Mapping[str, tuple[str, str]] = {
    "log4j2": ("log4j2.configurationFile", "log4j2.xml"),
    "log4j1": ("log4j.configuration", "log4j1.properties"),
}
"""Brokers log at INFO to standard output, state changes left out: a property and a file of ours, by the library that
they log by.
"""
HERE = Path(__file__).parent

_QUIET_NATIVE_ACCESS = 22  # since when the JVM warns of it
_QUIET_UNSAFE = 23


def jvm_flags(java: Java) -> list[str]:
    """What every JVM of ours gets: small, quick to start, and nothing left in a temporary place."""
    flags = [
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-XX:-UsePerfData",  # its files outlive a JVM that is killed
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
    configured_in: Path = HERE,
) -> list[str]:
    """The command that runs one of Kafka's main classes.

    `configured_in`: the folder with the files of `LOGGING`, where it will run.

    `folder` takes what the JVM writes beside its data: unpacked native libraries, the report of a
    crash. It must exist, and go when the run goes.
    """
    logged_by, logging = LOGGING[kafka_version(kafka.version).logging]
    return [
        str(java.executable),
        *jvm_flags(java),
        f"-Xmx{heap_mb}m",
        NO_REQUESTS,
        *archive_flags,
        f"-Djava.io.tmpdir={folder}",
        f"-XX:ErrorFile={folder}/hs_err_%p.log",
        f"-D{logged_by}={(configured_in / logging).as_uri()}",
        "-cp",
        ":".join(map(str, kafka.class_path)),
        main,
        *map(str, args),
    ]
