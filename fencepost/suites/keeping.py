"""What is kept of a suite's runs: all of each, or of those that nobody has to look at only what tells of them."""

import shutil
from contextlib import suppress
from pathlib import Path

from fencepost.suites import outcome
from fencepost.suites.folder import RUNS, Book
from harness.suite import Cell, State
from harness.telling.words import several

ALL, BAD = "all", "bad"
KEEP = (ALL, BAD)
KEEP_LITTLE = (State.VALID, State.CAUGHT)
"""A failure that is known has a deadline: then somebody has to look at it."""
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
    if cell.state not in KEEP_LITTLE or cell.run is None or outcome.stored(cell, book.folder) is None:
        return None
    run = book.folder / cell.run
    inside = run.resolve().parent.parent == (book.folder / RUNS).resolve()
    return run if inside and cell.slug and run.parent == book.runs_of(cell) and not run.is_symlink() else None


BANNER = """<main>
<p><strong>The evidence of this run was removed</strong> (<code>--keep-evidence bad</code>): of the files that this
page names only verdict.json, test.toml, facts.json and junit.xml are left. <code>fencepost replay</code> of its folder
runs it again.</p>
"""
"""What the report of such a run says first."""


def _marked(report: Path) -> None:
    """Have the report say that the rest is gone."""
    with suppress(OSError, UnicodeDecodeError):  # it is for people: what it lacks changes no verdict
        text = report.read_text(encoding="utf-8")
        if BANNER not in text:
            report.write_text(text.replace("<main>\n", BANNER, 1), encoding="utf-8")


def _reduced(run: Path) -> bool:
    """Whether all is gone that is not kept."""
    done = True
    _marked(run / "report.html")
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
