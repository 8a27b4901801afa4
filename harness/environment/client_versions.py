"""Which versions of the clients a run can be asked for. `client-versions.toml` says what is known of each, and its lock
which files it is made of.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from harness.common.errors import UsageError
from harness.common.names import nearest, on_one_line

CLIENTS = ("librdkafka", "java")
PACKAGES: Mapping[str, str] = {"librdkafka": "confluent-kafka", "java": "kafka-clients"}
"""The package whose version is meant, by client."""
UNVERSIONED: Mapping[str, str] = {
    "librdkafka": "which is the confluent-kafka that is installed beside Fencepost",
    "java": "which is the kafka-clients of the cluster's version",
}
"""What a client without a version is."""
_HERE = Path(__file__).parent
_TABLE = _HERE / "client-versions.toml"


@dataclass(frozen=True)
class ClientVersion:
    """One pinned version of a client."""

    client: str
    version: str  # of its package: confluent-kafka, kafka-clients
    library: str | None = None  # the librdkafka that comes with it
    notes: str = ""

    @property
    def name(self) -> str:
        """As `--client` has it."""
        return f"{self.client}:{self.version}"

    @property
    def summary(self) -> str:
        """In one line, for `fencepost list clients`."""
        brings = f", which brings librdkafka {self.library}" if self.library else ""
        return "; ".join(filter(None, (f"{PACKAGES[self.client]} {self.version}{brings}", self.notes)))

    @property
    def lock(self) -> Path:
        """The file that pins what it is made of."""
        return _HERE / f"client-{self.client}-{self.version}.lock"


def client_version(client: str, version: str) -> ClientVersion:
    """What is known of a version; raises `UsageError` for one that is not pinned, with the nearest and all that are."""
    known = {one.version: one for one in client_versions() if one.client == client}
    if version not in known:
        close = nearest(version, known)
        meant = f' (did you mean "{client}:{close}"?)' if close else ""
        raise UsageError(
            f'there is no pinned client "{on_one_line(f"{client}:{version}")}"{meant}: choose one of '
            f"{', '.join(f'{client}:{one}' for one in known)}, or {client}, {UNVERSIONED[client]}"
        )
    return known[version]


@cache
def client_versions() -> tuple[ClientVersion, ...]:
    """All that are pinned, by client, newest first."""
    table = tomllib.loads(_TABLE.read_text(encoding="utf-8"))
    return tuple(
        ClientVersion(client=client, version=version, **told)
        for client in CLIENTS
        for version, told in table[client].items()
    )
