"""The pinned client versions of `--client NAME:VERSION`.

`client-versions.toml` describes each version, and its lock lists its files.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from harness.common.documents import read_toml
from harness.common.errors import UsageError
from harness.common.wording import nearest, on_one_line

CLIENTS = ("librdkafka", "java")
PACKAGES: Mapping[str, str] = {"librdkafka": "confluent-kafka", "java": "kafka-clients"}
"""The package to which the version belongs, by client."""
UNVERSIONED: Mapping[str, str] = {
    "librdkafka": "which is the confluent-kafka that is installed with Fencepost",
    "java": "which is the kafka-clients of the cluster's version",
}
"""The client that `--client` without a version means."""
_HERE = Path(__file__).parent
_TABLE = _HERE / "client-versions.toml"


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
    table = read_toml(_TABLE)
    return tuple(
        ClientVersion(client=client, version=version, **fields)
        for client in CLIENTS
        for version, fields in table[client].items()
    )
