"""Name a history: a file by its suffix, or a folder of tables by its path or URL.

This module imports neither PySpark nor PyArrow, because every `fencepost check` imports it.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from harness.common.errors import UnreadableInput

SUFFIXES = {".jsonl": False, ".json": False, ".edn": True}
GZIP = b"\x1f\x8b"  # the first bytes of gzip data
SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+:/+[^/]")


class Url(str):
    """The URL of the folder, such as `s3a://bucket/history`. Only Spark can read it."""

    @property
    def name(self) -> str:
        """The last part of the URL."""
        return self.rstrip("/").rpartition("/")[2]

    def __truediv__(self, name: str) -> "Url":
        return Url(f"{self.rstrip('/')}/{name}")


def is_url(path: str) -> bool:
    """Return whether a path on the command line is a URL."""
    return SCHEME.match(path) is not None


@dataclass(frozen=True)
class HistoryFile:
    """An external history. `run` is its number in the tables. The path is a file (.jsonl, .json, .edn, also .gz) or a
    folder of tables. Only a folder can be at a URL.
    """

    run: int
    path: Path | Url

    @property
    def is_folder(self) -> bool:
        """True if the history is a folder of tables."""
        return isinstance(self.path, Url) or self.path.is_dir()


def require_suffix(path: Path) -> str:
    """Return the suffix of the name of a history, without `.gz`. Raises `UnreadableInput`."""
    kind = (path.with_suffix("") if path.suffix == ".gz" else path).suffix
    if kind not in SUFFIXES:
        known = ", ".join(SUFFIXES)
        raise UnreadableInput(
            f"{path} is not a history: a history's name ends in {known}, or in one of these and .gz"
        )
    return kind


def is_gzipped(path: Path) -> bool:
    """Return whether the first bytes of the file are those of gzip data. Its name does not matter. Raises OSError."""
    with path.open("rb") as file:
        return file.read(len(GZIP)) == GZIP
