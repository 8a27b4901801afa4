"""What a run stands on: Kafka, Java and toxiproxy (found or fetched), ports, memory, disk."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.environment.client_parts import ClientParts
    from harness.environment.container_image import ContainerImage
    from harness.environment.java import Java
    from harness.environment.kafka import KafkaDistribution
    from harness.environment.postgres import Postgres


@dataclass(frozen=True)
class PreparedEnvironment:
    """Everything that a cluster is started from; nothing of it is fetched or built any more."""

    kafka: "KafkaDistribution"
    java: "Java"
    toxiproxy: Path  # the server's binary
    archive_flags: tuple[str, ...]  # of the class-data archive for brokers; none if it could not be made
    cache: Path
    postgres: "Postgres | None" = None  # where the pipeline needs one
    image: "ContainerImage | None" = None  # where the brokers run in containers
    client: "ClientParts | None" = None  # where one of a version was asked for
