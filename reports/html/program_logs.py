"""The last lines that each program of a run printed, without secrets, for the report."""

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from harness.common.wording import printable, redact_text
from reports.known_secrets import known_secrets, without_secrets

MOST_LOGS, MOST_LINES = 24, 12
_MOST_BYTES = 16 << 10
_MOST_TEXT = 300
NOT_PROGRAMS = ("feeder", "final-", "observer")
"""How the names of the logs of Fencepost's own processes begin."""


@dataclass(frozen=True)
class ProgramLog:
    """The end of a log."""

    name: str  # the process: `bill-2.0`
    href: str
    lines: list[str]


def program_logs(folder: Path, options: Mapping[str, Any]) -> Iterator[ProgramLog]:
    """Yield the end of the log of each program that printed something, in the order of their names.

    The values of secrets in the environment of this process are left out, too, because programs inherit it.

    Args:
        folder: the run folder
        options: the options of the run, which name files with secrets
    """
    secrets = known_secrets(folder, options, os.environ)
    paths = [
        path
        for path in sorted((folder / "workers").glob("*.log"))
        if not path.name.startswith(NOT_PROGRAMS) and path.is_file() and path.stat().st_size
    ]
    for path in paths[:MOST_LOGS]:
        with suppress(OSError):
            yield ProgramLog(
                printable(path.stem, 60), f"workers/{quote(path.name)}", _last_lines(path, secrets)
            )


def _last_lines(path: Path, secrets: frozenset[str]) -> list[str]:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _MOST_BYTES))
        lines = file.read(_MOST_BYTES).decode("utf-8", "replace").splitlines()
    return [
        without_secrets(printable(redact_text(line), _MOST_TEXT), secrets) for line in lines[-MOST_LINES:]
    ]
