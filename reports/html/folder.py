"""Read a run's folder for the report: the files that exist, and notes about missing files.

An interrupted or killed run leaves fewer files. A missing or damaged file raises no exception. It is noted, and the
report shows the notes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from harness.common.documents import read_toml
from harness.common.errors import UnreadableInput
from harness.common.wording import printable, size
from harness.record.protocol_journal import JOURNAL
from harness.results.run_metadata import RunMetadata

MOST_FILES = 500
WHAT_FOR = (
    ("verdict.json", "the verdict, for programs"),
    ("run.toml", "all settings and the schedule: with this file the run can be repeated"),
    ("metadata.json", "run metadata: phases, faults, versions"),
    ("journals", "the journals of Fencepost's own processes, line by line"),
    ("workers", "what the programs printed"),
    ("history", "the journals as Parquet tables"),
    ("log", "the broker logs, as Parquet tables"),
    ("brokers", "the brokers' own logs"),
)


@dataclass
class RunFiles:
    """The contents of the small files in a run's folder."""

    folder: Path
    settings: Mapping[str, Any] = field(default_factory=dict)
    metadata: RunMetadata | None = None
    missing: list[str] = field(default_factory=list)

    def table(self, name: str) -> Mapping[str, Any]:
        """Return a table of run.toml; empty if it does not exist."""
        body = self.settings.get(name)
        return body if isinstance(body, Mapping) else {}

    def schedule(self) -> list[Mapping[str, Any]]:
        """Return the planned faults."""
        entries = self.settings.get("schedule")
        return [fault for fault in entries if isinstance(fault, Mapping)] if isinstance(entries, list) else []


def load(folder: Path) -> RunFiles:
    """Read the files that exist."""
    contents = RunFiles(folder)
    try:
        contents.settings = read_toml(folder / "run.toml")
    except FileNotFoundError:
        contents.missing.append("run.toml does not exist: settings and schedule are unknown")
    except (OSError, ValueError) as error:
        contents.missing.append(f"run.toml cannot be read: {printable(str(error))}")
    try:
        contents.metadata = RunMetadata.load(folder / "metadata.json")
    except UnreadableInput as error:
        contents.missing.append(
            printable(str(error), 300)
            if (folder / "metadata.json").exists()
            else "metadata.json does not exist, for example because the run was killed: phases and versions are unknown"
        )
    for name in ("journals", "history", "log"):
        if not (folder / name).is_dir():
            contents.missing.append(f"the folder {name} does not exist")
    return contents


@dataclass(frozen=True)
class EnclosedFile:
    """A file or folder to send with a bug report."""

    name: str
    href: str
    what_for: str
    size: str  # "missing" if it does not exist


def files_to_enclose(folder: Path, verdict_bytes: int) -> list[EnclosedFile]:
    """Return the files for a bug report, with sizes. `verdict_bytes` is the size of the verdict, which may be
    written after the report.
    """
    rows = []
    for name, what_for in WHAT_FOR:
        size_text = size(verdict_bytes) if name == "verdict.json" else _size(folder / name)
        rows.append(EnclosedFile(name, quote(name), what_for, size_text))
    if (folder / JOURNAL).is_file():
        what_for = "what the protocol proxy saw of Kafka's messages, and what rules did with them"
        rows.append(EnclosedFile(JOURNAL, JOURNAL, what_for, _size(folder / JOURNAL)))
    rows += [
        EnclosedFile(
            str(log.relative_to(folder)), quote(str(log.relative_to(folder))), "a broker's log", _size(log)
        )
        for log in sorted(folder.glob("brokers/*/server.log"))[:20]
    ]
    return rows


def _size(path: Path) -> str:
    try:
        if path.is_file():
            return size(path.stat().st_size)
        if not path.is_dir():
            return "missing"
        files = [file for _, file in zip(range(MOST_FILES), path.rglob("*"), strict=False) if file.is_file()]
        more = " or more" if len(files) == MOST_FILES else ""
        return f"{len(files)} files, {size(sum(file.stat().st_size for file in files))}{more}"
    except OSError as error:
        return printable(f"cannot be read: {error.strerror}")
