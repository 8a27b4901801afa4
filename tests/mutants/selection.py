"""Select the checker files whose mutants are run."""

import subprocess
from pathlib import Path

from checkers.registry import CHECKERS
from tests.support.unknown_name import unknown_name

ROOT = Path(__file__).parents[2]


class SelectionError(Exception):
    """A name or a revision that selects nothing; the message is one sentence."""


def checker_files(name: str) -> list[str]:
    """Return the checker files that a name selects, as paths from the root of the repository.

    Args:
        name: A path such as `checkers/stored/tables.py`, the end of one (`stored/tables`, `tables`), or an anomaly
            (`lost-input`). Several files may have the same name; all of them are returned.

    Raises:
        SelectionError: No checker file has this name.
    """
    files = _all_files()
    modules = {anomaly: checker.module for checker in CHECKERS for anomaly in checker.anomalies}
    module = modules.get(name, name.removeprefix("checkers/").removesuffix(".py"))
    found = [file for file in files if f"/{file}".endswith(f"/{module}.py")]
    if not found:
        known = {Path(file).stem for file in files} | {*modules}
        raise SelectionError(unknown_name("checker file", name, known))
    return found


def changed_since(revision: str) -> list[str]:
    """Return the checker files that differ from a git revision.

    Raises:
        SelectionError: git does not know the revision.
    """
    command = ["git", "diff", "--name-only", revision, "--", "checkers"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SelectionError(f'git knows no revision "{revision}"')
    return sorted({*done.stdout.splitlines()} & {*_all_files()})


def _all_files() -> list[str]:
    return sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "checkers").rglob("*.py"))
