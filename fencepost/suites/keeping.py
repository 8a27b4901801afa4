"""What is kept of a suite's runs: all of each, or of those that nobody has to look at only what tells of them."""

import shutil
from pathlib import Path

from fencepost.suites import outcome
from fencepost.suites.folder import Book
from harness.suite import Cell
from harness.telling.words import several

ALL, BAD = "all", "bad"
KEEP = (ALL, BAD)
KEPT = frozenset({"report.html", "verdict.json", "test.toml", "facts.json", "junit.xml"})
"""Of a run whose evidence is removed. `outcome.stored` reads the verdict when the suite is resumed."""


def keep_bad(book: Book) -> str:
    """Remove the evidence of the runs that are good; what of it cannot be removed stays. Returns what was done.

    A run without a verdict in its folder keeps all, whatever its state says.
    """
    runs = [run for cell in book.suite.cells if (run := _judged_good(book, cell)) is not None]
    stayed = [run for run in runs if not _reduced(run)]
    if stayed:
        return f"the evidence of {several(len(stayed), 'run')} could not be removed, for instance {stayed[0]}"
    return f"removed the evidence of {several(len(runs), 'run')} that nobody has to look at"


def _judged_good(book: Book, cell: Cell) -> Path | None:
    """The folder of a run that was judged and is good; None: its evidence is kept."""
    if not cell.state.good or cell.run is None or outcome.stored(cell, book.folder) is None:
        return None
    run = book.folder / cell.run
    return run if cell.slug and run.parent == book.runs_of(cell) and not run.is_symlink() else None


def _reduced(run: Path) -> bool:
    """Whether all is gone that is not kept."""
    done = True
    for one in run.iterdir():
        if one.name in KEPT:
            continue
        try:
            if one.is_dir() and not one.is_symlink():
                shutil.rmtree(one)
            else:
                one.unlink()
        except OSError:
            done = False
    return done
