"""Versions of Kafka and its clients: those that are pinned, and that of the client in this process.

Other code reads a property of a version, and never compares version numbers.

`client-versions.toml` describes each version, and its lock lists its files.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from harness.common.documents import read_toml
from harness.common.errors import UsageError
from harness.common.wording import nearest, on_one_line, unknown

DEFAULT_KAFKA = "4.4.0"
"""The version of the brokers if `--kafka` is not given."""
_KAFKA = Path(__file__).with_name("kafka-versions.toml")
CLIENTS = ("librdkafka", "java")
PACKAGES: Mapping[str, str] = {"librdkafka": "confluent-kafka", "java": "kafka-clients"}
"""The package to which the version belongs, by client."""
UNVERSIONED: Mapping[str, str] = {
    "librdkafka": "which is the confluent-kafka that is installed with Fencepost",
    "java": "which is the kafka-clients of the cluster's version",
}
"""The client that `--client` without a version means."""
_HERE = Path(__file__).parent
_CLIENTS = _HERE / "client-versions.toml"


@dataclass(frozen=True)
class KafkaVersion:
    """A pinned version of Kafka."""

    version: str
    java: int  # the oldest Java on which its brokers run
    logging: str  # the logging library: log4j2 or log4j1
    transaction_versions: tuple[int, ...]  # levels of the feature transaction.version (KIP-890)
    transaction_default: int  # the default level of a new cluster
    consumer_protocol: bool  # whether the consumer group protocol (KIP-848) is more than a preview
    notes: str = ""

    @property
    def line(self) -> str:
        """Return the release line: `4.4` for `4.4.0`."""
        return self.version.rpartition(".")[0]

    @property
    def summary(self) -> str:
        """Return one line for `fencepost list kafka`."""
        levels = ", ".join(map(str, self.transaction_versions))
        only = f"transaction version {levels}" if len(self.transaction_versions) == 1 else None
        parts = (
            f"release line {self.line}",
            only or f"transaction versions {levels} (default {self.transaction_default})",
            "group protocols classic and consumer (KIP-848)"
            if self.consumer_protocol
            else "only the group protocol classic",
            f"Java {self.java} or newer",
            *([self.notes] if self.notes else []),
        )
        return "; ".join(parts)

    def transaction_level(self, chosen: int | None) -> int:
        """Return the level of transaction.version of a new cluster. `chosen` is the user's choice, or None."""
        return self.transaction_default if chosen is None else chosen

    def require(self, transaction_version: int | None, group_protocol: str) -> None:
        """Raise `UsageError` if a cluster of this version lacks the transaction version or the group protocol."""
        levels = self.transaction_versions
        if transaction_version is not None and transaction_version not in levels:
            noun = "transaction versions" if len(levels) > 1 else "transaction version"
            raise UsageError(
                f"Kafka {self.version} has {noun} {', '.join(map(str, levels))} only, not {transaction_version}: "
                "leave transaction-version out, or choose another --kafka"
            )
        if group_protocol == "consumer" and not self.consumer_protocol:
            raise UsageError(
                f"Kafka {self.version} has the consumer group protocol (KIP-848) as a preview only: "
                "use --group-protocol classic, or choose --kafka 4.0.2 or newer"
            )


def kafka_version(version: str) -> KafkaVersion:
    """Return a pinned version. Raises `UsageError` for others."""
    known = _all()
    if version not in known:
        raise UsageError(unknown("pinned Kafka version", version, tuple(known)))
    return known[version]


@cache
def _all() -> dict[str, KafkaVersion]:
    return {name: _parse(name, fields) for name, fields in read_toml(_KAFKA).items()}


def _parse(name: str, fields: dict[str, object]) -> KafkaVersion:
    levels = fields["transaction_versions"]
    assert isinstance(levels, Sequence)
    return KafkaVersion(version=name, **{**fields, "transaction_versions": tuple(levels)})  # type: ignore[arg-type]


@dataclass(frozen=True)
class ClientVersion:
    """A pinned version of a client."""

    client: str
    version: str  # of its package: confluent-kafka, kafka-clients
    library: str | None = None  # version of the librdkafka in the package; None: Java
    transaction_version: int = 0  # the highest transaction.version that it supports (KIP-890)
    notes: str = ""

    @property
    def name(self) -> str:
        """Return the value for `--client`."""
        return f"{self.client}:{self.version}"

    @property
    def summary(self) -> str:
        """Return one line for `fencepost list clients`."""
        brings = f", which brings librdkafka {self.library}" if self.library else ""
        return "; ".join(filter(None, (f"{PACKAGES[self.client]} {self.version}{brings}", self.notes)))

    @property
    def lock(self) -> Path:
        """Return the file with the checksums of the version."""
        return _HERE / f"client-{self.client}-{self.version}.lock"


def client_version(client: str, version: str) -> ClientVersion:
    """Return a pinned version. Raises `UsageError` for others; it names the nearest version and all pinned ones."""
    known = {pinned.version: pinned for pinned in client_versions() if pinned.client == client}
    if version not in known:
        close = nearest(version, known)
        suggestion = f' (did you mean "{client}:{close}"?)' if close else ""
        raise UsageError(
            f'there is no pinned client "{on_one_line(f"{client}:{version}")}"{suggestion}: choose one of '
            f"{', '.join(f'{client}:{name}' for name in known)}, or {client}, {UNVERSIONED[client]}"
        )
    return known[version]


@cache
def client_versions() -> tuple[ClientVersion, ...]:
    """Return all pinned versions, by client, newest first."""
    table = read_toml(_CLIENTS)
    return tuple(
        ClientVersion(client=client, version=version, **fields)
        for client in CLIENTS
        for version, fields in table[client].items()
    )


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
