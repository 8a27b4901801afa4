"""Get the version of the client library that a process has loaded. The journal of the process records it."""

import sys
from dataclasses import dataclass

from harness.environment.client_versions import PACKAGES


@dataclass(frozen=True)
class RunningClient:
    """The client library that a process has loaded."""

    name: str  # librdkafka, java
    version: str  # of its package: confluent-kafka, kafka-clients
    library: str | None = None  # the version of librdkafka; None: Java

    def __str__(self) -> str:
        package = f"{PACKAGES.get(self.name, self.name)} {self.version}"
        return package if self.library is None else f"{package} (librdkafka {self.library})"

    def require(self, required: str | None) -> None:
        """Exit with a message if the version differs from `required`. None: accept every version.

        The run would otherwise test another client than the user chose.
        """
        if required is not None and required != self.version:
            sys.exit(
                f"this process runs {self}, but --client {self.name}:{required} requires another version: remove the "
                f"other {PACKAGES[self.name]} from the front of Python's path ({_loaded_from()})"
            )


def running_librdkafka() -> RunningClient:
    """Return the versions of the confluent-kafka that this process has loaded."""
    import confluent_kafka

    version = confluent_kafka.version()  # a pair up to 2.11, a string from then on
    library, _ = confluent_kafka.libversion()
    return RunningClient("librdkafka", version if isinstance(version, str) else version[0], library)


def running_java() -> RunningClient:
    """Return the version of kafka-clients in the JVM of this process. The JVM must have been started."""
    from harness.clients.in_process_jvm import java_class, text

    # Kafka's class that reads this file has another package from 4.4 on.
    properties = java_class("java.util.Properties")()
    library = java_class("org.apache.kafka.clients.producer.KafkaProducer").class_
    with library.getResourceAsStream("/kafka/kafka-version.properties") as file:
        properties.load(file)
    return RunningClient("java", text(properties.getProperty("version")))


def _loaded_from() -> str:
    module = sys.modules.get("confluent_kafka")
    return str(getattr(module, "__file__", None) or "its class path")
