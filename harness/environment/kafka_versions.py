"""The differences between the pinned versions of Kafka, read from `kafka-versions.toml`.

Other code reads a property of a version, and never compares version numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from harness.common.documents import read_toml
from harness.common.errors import UsageError
from harness.common.wording import unknown

DEFAULT_KAFKA = "4.4.0"
"""The version of the brokers if `--kafka` is not given."""
_TABLE = Path(__file__).with_name("kafka-versions.toml")


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
    return {name: _parse(name, fields) for name, fields in read_toml(_TABLE).items()}


def _parse(name: str, fields: dict[str, object]) -> KafkaVersion:
    levels = fields["transaction_versions"]
    assert isinstance(levels, Sequence)
    return KafkaVersion(version=name, **{**fields, "transaction_versions": tuple(levels)})  # type: ignore[arg-type]
