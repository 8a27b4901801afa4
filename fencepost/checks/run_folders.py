"""Find the runs or histories that a path on the command line names, and keep other processes out of a folder."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from checkers.histories.files import Url, is_url
from harness.common.errors import UnreadableInput, UsageError, value_or_error
from harness.common.wording import redact_text
from harness.record.run_tables import PLAN
from harness.results.suite import SUITE_FILE

TABLES_MARK = "micro.parquet"
"""A folder with this file is an external history in Parquet tables."""


@dataclass(frozen=True)
class NamedHistory:
    """A history that the user named. It has a folder (a stored run), a file (an external history), or an error."""

    history: str
    folder: Path | None = None
    file: Path | Url | None = None  # an external history
    error: str | None = None


def find_histories(path: str) -> list[NamedHistory]:
    """The run or history at `path`, or the runs in that folder, newest last. Errors are in the result."""
    if not path:  # perhaps an unset shell variable; Path("") would be the working directory
        return [NamedHistory(path, error="a path is empty: name a stored run, a store, or a history file")]
    if is_url(path):
        return [NamedHistory(redact_text(path), file=Url(path))]
    try:
        return _expand(path)
    except OSError as error:
        return [NamedHistory(path, error=f"{error.filename or path} cannot be read: {error.strerror}")]


def find_run(path: str) -> Path:
    """The folder of the run at `path`. Raises `UnreadableInput` if it is not a run, for instance a folder of runs."""
    histories = find_histories(path)
    if histories[0].folder is None:
        raise UnreadableInput(
            histories[0].error or f"{path} is an external history: this command needs a stored run"
        )
    if Path(path) != histories[0].folder:
        raise UnreadableInput(
            f"{path} is a folder of runs, not a run: name a run in it, for instance {histories[-1].history}"
        )
    return histories[0].folder


def _expand(path: str) -> list[NamedHistory]:
    folder = Path(path)
    if (folder / PLAN).is_file():
        return [NamedHistory(path, folder)]
    if (folder / TABLES_MARK).exists():
        return [_tables(path)]
    if folder.is_dir():
        is_suite = (folder / SUITE_FILE).is_file() and (folder / "runs").is_dir()
        store = folder / "runs" if is_suite else folder
        runs = sorted(_runs(store), key=lambda run: (run.name, str(run)))
        if runs:
            return [NamedHistory(str(run), run) for run in runs]
        message = (
            f"{path} is neither a stored run (there is no {PLAN}) nor a folder of tables (there is no {TABLES_MARK}), "
            f"and contains no runs: name history files one by one, for instance {path}/*.jsonl"
        )
        return [NamedHistory(path, error=message)]
    if folder.exists():
        return [_file(path)]
    return [NamedHistory(path, error=f"there is no {path}")]


def _tables(path: str) -> NamedHistory:
    """A folder of tables, or an error if a table is missing."""
    from harness.record.history_form import TABLES

    missing = [f"{name}.parquet" for name in TABLES if not (Path(path) / f"{name}.parquet").exists()]
    if missing:
        are = "is" if len(missing) == 1 else "are"
        return NamedHistory(
            path, error=f"{path} is not a folder of tables: {', '.join(missing)} {are} missing"
        )
    return NamedHistory(path, file=Path(path))


def _file(path: str) -> NamedHistory:
    """A history file, or an error if its name or first bytes show that it is not a history. This needs no Spark."""
    from checkers.histories.blocks import require_readable

    def readable() -> Path:
        require_readable(Path(path))
        return Path(path)

    file = value_or_error(readable, UnreadableInput, lambda error: f"{path} cannot be read ({error})")
    return NamedHistory(path, file=file) if isinstance(file, Path) else NamedHistory(path, error=str(file))


def _runs(folder: Path) -> Iterator[Path]:
    """Runs in a store (`NAME/TIME`) or in a folder `NAME`. Links such as `latest` are not followed."""
    for child in folder.iterdir():
        if child.is_symlink() or not child.is_dir():
            continue
        if (child / PLAN).is_file():
            yield child
        else:
            yield from (run for run in child.iterdir() if not run.is_symlink() and (run / PLAN).is_file())


@contextmanager
def sole_use(file: Path, taken: str) -> Iterator[None]:
    """Hold the lock of this file in a `with` block. Raises `UsageError(taken)` if another process holds it."""
    with file.open("wb") as opened:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(taken) from None
        yield
