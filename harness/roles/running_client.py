"""Which client a process really runs, as the library itself says: it stands in the process's journal."""

import sys
from dataclasses import dataclass

from harness.environment.client_versions import PACKAGES


@dataclass(frozen=True)
class RunningClient:
    """A client that was loaded."""

    name: str  # librdkafka, java
    version: str  # of its package: confluent-kafka, kafka-clients
    library: str | None = None  # of librdkafka itself

    def __str__(self) -> str:
        package = f"{PACKAGES[self.name]} {self.version}"
        return package if self.library is None else f"{package} (librdkafka {self.library})"

    def require(self, asked: str | None) -> None:
        """End the process, with a sentence as its last words, where it runs another version than was asked for.

        A run that went on would be evidence of a client that nobody asked for.
        """
        if asked is not None and asked != self.version:
            sys.exit(
                f"this process runs {self}, and --client {self.name}:{asked} was asked for: look for what puts another "
                f"{PACKAGES[self.name]} first on Python's path ({_place()})"
            )


def running_librdkafka() -> RunningClient:
    """That of confluent-kafka, which this process has loaded."""
    import confluent_kafka

    version = confluent_kafka.version()  # a pair up to 2.11, then a text
    library, _ = confluent_kafka.libversion()
    return RunningClient("librdkafka", version if isinstance(version, str) else version[0], library)


def running_java() -> RunningClient:
    """That of kafka-clients, in the JVM of this process, which must have been started."""
    from harness.clients.jvm import java_class, text

    return RunningClient("java", text(java_class("org.apache.kafka.common.utils.AppInfoParser").getVersion()))


def _place() -> str:
    module = sys.modules.get("confluent_kafka")
    return str(getattr(module, "__file__", None) or "its class path")
