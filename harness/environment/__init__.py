"""The programs and resources that a run needs: Kafka, Java, toxiproxy, PostgreSQL, ports, memory and disk.

Programs are found on the machine, or fetched. Begin with `prepare`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.environment.client_parts import ClientParts
    from harness.environment.container_image import ContainerImage
    from harness.environment.java import Java
    from harness.environment.kafka import KafkaDistribution
    from harness.environment.postgres import Postgres


@dataclass(frozen=True)
class PreparedKafka:
    """A version of Kafka to which brokers are upgraded during a run."""

    distribution: "KafkaDistribution"
    archive_flags: tuple[str, ...]  # JVM flags that use the class-data archive; empty if there is none yet


@dataclass(frozen=True)
class PreparedEnvironment:
    """The parts from which a cluster is started. All of them are fetched and built."""

    kafka: "KafkaDistribution"
    java: "Java"
    toxiproxy: Path  # the server's binary
    archive_flags: tuple[str, ...]  # JVM flags that use the class-data archive; empty if there is none yet
    cache: Path
    postgres: "Postgres | None" = None  # None: the pipeline does not need it
    image: "ContainerImage | None" = None  # None: the brokers do not run in containers
    client: "ClientParts | None" = None  # None: `--client` names no version
    upgrades: Mapping[str, PreparedKafka] = field(default_factory=dict)  # by version
    preload: Path | None = None  # the preloaded library. None: no fault of the run needs it
    kafka_is_new: bool = False  # it was fetched just now, so this is the first run
