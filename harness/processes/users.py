"""Another user for a server that refuses to run as root: one that every system has, and that owns nothing."""

import os
import pwd
from dataclasses import dataclass
from pathlib import Path

from harness.common.errors import EnvironmentFailure

_NAMES = ("nobody", "daemon")


@dataclass(frozen=True)
class User:
    """Who a process runs as."""

    name: str
    uid: int
    gid: int

    def own(self, folder: Path) -> None:
        """Give a folder to this user."""
        os.chown(folder, self.uid, self.gid)

    def reaches(self, path: Path) -> bool:
        """Whether it may read what is at `path`: every folder above lets others through."""
        place = path.resolve()
        return all(folder.stat().st_mode & 0o001 for folder in place.parents) and bool(
            place.stat().st_mode & 0o004
        )


def unprivileged_user() -> User | None:
    """Who a server runs as that must not run as root; None: as this process, which is not root.

    Raises `EnvironmentFailure` where root has nobody to become.
    """
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name: entry for entry in pwd.getpwall()}
    found = next((known[name] for name in _NAMES if name in known), None)
    if found is None:
        raise EnvironmentFailure(
            "PostgreSQL does not run as root, and this system has neither the user nobody nor daemon: run Fencepost "
            "as another user"
        )
    return User(found.pw_name, found.pw_uid, found.pw_gid)
