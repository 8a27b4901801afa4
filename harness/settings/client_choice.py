"""The option `client`: the client that the pipeline uses, and its version."""

import re
from dataclasses import dataclass

from harness.common.errors import UsageError
from harness.common.wording import unknown
from harness.environment.client_versions import CLIENTS, ClientVersion, client_version
from harness.settings.kinds import refuse

_VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+_-]{0,31}")
_MUST_BE = f"one of {', '.join(CLIENTS)}, with or without a version, such as librdkafka:2.16.1"


@dataclass(frozen=True)
class ClientChoice:
    """The client and its version.

    Without a version it is the installed librdkafka, or the Java client of the cluster's version.
    """

    name: str  # librdkafka, java
    version: str | None = None

    @classmethod
    def of(cls, option: str) -> "ClientChoice":
        """Read a value that `ClientKind` has accepted."""
        name, _, version = option.partition(":")
        return cls(name, version or None)

    @property
    def pinned(self) -> ClientVersion | None:
        """The pinned version. None: the option has no version. Raises `UsageError` if no lock file pins the version."""
        return None if self.version is None else client_version(self.name, self.version)

    @property
    def notes(self) -> str:
        """The notes about the pinned version. Empty: there are none."""
        return self.pinned.notes if self.pinned is not None else ""


@dataclass(frozen=True)
class ClientKind:
    """A client, with or without a version: `librdkafka`, `java:3.9.1`. `Options.validated` checks the version."""

    def parse(self, key: str, text: str) -> str:
        return self.accept(key, text)

    def accept(self, key: str, value: object) -> str:
        if not isinstance(value, str):
            raise refuse(key, _MUST_BE, value)
        name, colon, version = value.partition(":")
        if name not in CLIENTS:
            raise UsageError(unknown(key, name, CLIENTS))
        if colon and not _VERSION.fullmatch(version):
            raise refuse(key, _MUST_BE, value)
        return value
