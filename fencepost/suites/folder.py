"""The folder of a suite: one place for its record, its pages, the stores of its runs, and their logs."""

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from harness.errors import UnreadableInput, UsageError
from harness.record.store import new_folder, point_latest
from harness.suite import SUITE_FILE, Cell, Suite

RUNS, LOGS = "runs", "logs"
_LOCK = "suite.lock"


class Book:
    """The suite as it stands, written down with every change. `folder`: the suite's."""

    def __init__(self, folder: Path, suite: Suite) -> None:
        self.folder = folder
        self.suite = suite

    def change(self, **changes: object) -> None:
        """Change what is told of the whole."""
        self.suite = replace(self.suite, **changes)  # type: ignore[arg-type]
        self.suite.save(self.folder)

    def enter(self, *cells: Cell) -> None:
        """Put these in the places of the cells of their names."""
        new = {cell.name: cell for cell in cells}
        self.change(cells=[new.get(cell.name, cell) for cell in self.suite.cells])

    def runs_of(self, cell: Cell) -> Path:
        """Where the runs of a cell lie."""
        return self.folder / RUNS / cell.slug

    def log_of(self, cell: Cell) -> Path:
        """What the cell's process said."""
        return self.folder / LOGS / f"{cell.slug}.log"

    def ended_of(self, cell: Cell) -> Path:
        """How the cell's process says that it ended."""
        return self.folder / LOGS / f"{cell.slug}.json"

    def begin(self, cell: Cell) -> None:
        """Remove what an attempt that was killed has left."""
        shutil.rmtree(self.runs_of(cell), ignore_errors=True)
        self.ended_of(cell).unlink(missing_ok=True)
        self.log_of(cell).unlink(missing_ok=True)

    def run_of(self, cell: Cell) -> Path | None:
        """The folder of the cell's run; None where it did not come to have one."""
        found = sorted(one for one in self.runs_of(cell).glob("*") if one.is_dir() and not one.is_symlink())
        return found[-1] if found else None


def create(store: Path, suite: Suite) -> Book:
    """A new folder, `STORE/NAME/TIME`, to which `STORE/NAME/latest` points. Raises `EnvironmentFailure`."""
    book = Book(new_folder(store, suite.name, datetime.now(UTC), (RUNS, LOGS)), suite)
    suite.save(book.folder)
    point_latest(store / suite.name, book.folder)
    return book


def found(folder: Path) -> Path:
    """The folder of a suite that was named; raises `UsageError`."""
    if not (folder / SUITE_FILE).is_file():
        raise UsageError(
            f"{folder} is no suite (there is no {SUITE_FILE}): name the folder that it left, as store/NAME/TIME"
        )
    return folder.resolve()  # what is beside it is its past


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """For the length of a `with`, nobody else carries the suite out. Raises `UsageError` where somebody does."""
    with (folder / _LOCK).open("wb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(f"{folder}: this suite is still going on: wait for its end") from None
        yield


def earlier(store: Path, name: str, before: str, most: int) -> list[Suite]:
    """Suites of that name which began before a time, newest first; one that cannot be read is left out."""
    suites = []
    for path in sorted((store / name).glob(f"*/{SUITE_FILE}"), reverse=True):
        if path.parent.is_symlink():
            continue
        try:
            suite = Suite.load(path.parent)
        except UnreadableInput:
            continue
        if suite.name == name and suite.started < before:
            suites.append(suite)
    return sorted(suites, key=lambda suite: suite.started, reverse=True)[:most]
