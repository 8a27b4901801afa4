"""The option `client`: which client the pipeline uses, and of which version."""

import re
from dataclasses import dataclass

from harness.common.errors import UsageError
from harness.common.names import unknown
from harness.environment.client_versions import CLIENTS, ClientVersion, client_version
from harness.settings.kinds import refuse

_VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+_-]{0,31}")
_MUST_BE = f"one of {', '.join(CLIENTS)}, or with a version: librdkafka:2.16.1, java:3.9.1"


@dataclass(frozen=True)
class ClientChoice:
    """What the option says. Without a version: the one that is installed; for Java that of the cluster's version."""

    name: str  # librdkafka, java
    version: str | None = None

    @classmethod
    def of(cls, option: str) -> "ClientChoice":
        """From the option, which `ClientKind` has accepted."""
        name, _, version = option.partition(":")
        return cls(name, version or None)

    @property
    def pinned(self) -> ClientVersion | None:
        """What is known of the version that is asked for, if one is; raises `UsageError` for one that no lock pins."""
        return None if self.version is None else client_version(self.name, self.version)


@dataclass(frozen=True)
class ClientKind:
    """A client, or a client of a version: `librdkafka`, `java:3.9.1`. Whether it is pinned, `validated` asks."""

    def parse(self, key: str, text: str) -> str:
        """From text."""
        return self.accept(key, text)

    def accept(self, key: str, value: object) -> str:
        """From TOML or Python."""
        if not isinstance(value, str):
            raise refuse(key, _MUST_BE, value)
        name, colon, version = value.partition(":")
        if name not in CLIENTS:
            raise UsageError(unknown(key, name, CLIENTS))
        if colon and not _VERSION.fullmatch(version):
            raise refuse(key, _MUST_BE, value)
        return value
