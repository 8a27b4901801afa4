"""Find an unprivileged user for a server that refuses to run as root."""

import os
import pwd
from dataclasses import dataclass
from pathlib import Path

from harness.common.errors import EnvironmentFailure

_NAMES = ("nobody", "daemon")


@dataclass(frozen=True)
class User:
    """The user that a process runs as."""

    name: str
    uid: int
    gid: int

    def take_ownership(self, folder: Path) -> None:
        """Make this user the owner of a folder."""
        os.chown(folder, self.uid, self.gid)

    def can_read(self, path: Path) -> bool:
        """Return whether the user may read `path` and enter every folder above it."""
        resolved = path.resolve()
        return all(folder.stat().st_mode & 0o001 for folder in resolved.parents) and bool(
            resolved.stat().st_mode & 0o004
        )


def unprivileged_user() -> User | None:
    """Return the user for a server that must not run as root. Return None if this process does not run as root.

    Raises `EnvironmentFailure` if the system has no such user.
    """
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name: entry for entry in pwd.getpwall()}
    unprivileged = next((known[name] for name in _NAMES if name in known), None)
    if unprivileged is None:
        raise EnvironmentFailure(
            "PostgreSQL refuses to run as root, and this system has neither a user nobody nor a user daemon: "
            "run Fencepost as a user other than root"
        )
    return User(unprivileged.pw_name, unprivileged.pw_uid, unprivileged.pw_gid)
