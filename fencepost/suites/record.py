"""The folder of a suite, `STORE/NAME/TIME`, and the changes since previous suites of the same name."""

import hashlib
import json
import logging
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from jinja2 import TemplateError
from msgspec import structs

from fencepost.checks.run_folders import sole_use
from harness.common.errors import UnreadableInput, UsageError
from harness.common.wording import plural
from harness.record.run_tables import create_folder, update_latest_link
from harness.results.conclusions import recurrences
from harness.results.suite import SUITE_FILE, Cell, CellState, Flake, Suite
from harness.results.verdict import Verdict
from reports.html.suite import draw
from reports.suites.junit import junit
from reports.suites.markdown import changes, summary

MOST_SUITES = 30
"""Maximum number of suites in which the runs of a cell are counted, including the current suite."""
NOT_COMPARED = frozenset(
    {"seed", "store", "name", "keep", "java", "toxiproxy", "postgres", "mirror", "master", "spark-conf"}
)
"""Options that do not change what a run tests."""
WRONG = (CellState.INVALID, CellState.MISSED)
RUNS, LOGS = "runs", "logs"
LOCK = "suite.lock"
DRAW_EVERY_S = 2.0
"""The interval is this long because drawing the page of a thousand runs takes a quarter of a second."""
ALL, BAD = "all", "bad"
KEEP = (ALL, BAD)
KEPT_FILES = frozenset({"report.html", "verdict.json", "run.toml", "metadata.json", "junit.xml"})
"""Files of a run whose evidence is removed. A suite that is resumed reads the verdict."""
BANNER = """<main> <p><strong>The evidence of this run was removed</strong> (<code>--keep-evidence bad</code>): of the
files that this page names, only verdict.json, run.toml, metadata.json and junit.xml are left. To run it again, use
<code>fencepost replay</code> with its folder.</p>
"""
"""First paragraph of the report of a run whose evidence is removed."""


def previous_suites(store: Path, name: str, before: str) -> list[Suite]:
    """Suites of this name that began before a time (UTC, ISO 8601), newest first. Skips unreadable ones."""
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
    return sorted(suites, key=lambda suite: suite.started, reverse=True)[: MOST_SUITES - 1]


def fingerprint(options: Mapping[str, Any], versions: Mapping[str, str]) -> str:
    """Identify what a run tests. Runs with the same fingerprint can be compared."""
    text = json.dumps([_compared_options(options), dict(versions)], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _compared_options(options: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in options.items() if key not in NOT_COMPARED}


def _comparable(cell: Cell, other: Cell) -> bool:
    """Compare options alone if a run failed before it knew its versions."""
    if cell.versions and other.versions:
        return cell.fingerprint == other.fingerprint
    return _compared_options(cell.options) == _compared_options(other.options)


def compare(suite: Suite, previous: Sequence[Suite]) -> Suite:
    """Set `before`, `new` and `flake` of each cell. `previous`: newest first."""
    by_name = [{cell.name: cell for cell in older.cells} for older in previous]
    cells = [
        _compare(cell, [cells[cell.name] for cells in by_name if cell.name in cells]) for cell in suite.cells
    ]
    return structs.replace(
        suite,
        cells=cells,
        previous=previous[0].started if previous else None,
        recurrences=recurrences(
            ({fault for fault, times in cell.faults.items() if times}, set(cell.anomalies))
            for each in (suite, *previous)
            for cell in each.cells
            if cell.state.is_checked
        ),
    )


def _compare(cell: Cell, previous: Sequence[Cell]) -> Cell:
    with_outcome = [older for older in previous if older.state.good or older.state.bad]
    last = with_outcome[0] if with_outcome else None
    comparable = [run for run in [cell, *with_outcome[: MOST_SUITES - 1]] if _comparable(run, cell)]
    counted = [run for run in comparable if run.state.good or run.state.bad]
    flake = Flake(len(counted), sum(run.state.bad for run in counted))
    return structs.replace(cell, before=last.state if last else None, new=_is_new(cell, last), flake=flake)


def _is_new(cell: Cell, last: Cell | None) -> bool:
    """Return True if the cell is newly bad: its last run was good, or there was none.

    An invalid or missed cell is also new after a run that was unknown or failed, and if it has a new anomaly.
    """
    if not cell.state.bad or last is None or last.state.good:
        return cell.state.bad
    if cell.state in WRONG:
        return last.state not in WRONG or bool(cell.anomalies.keys() - last.anomalies.keys())
    return False


def oldest_run_first(cells: Sequence[Cell], previous: Sequence[Suite]) -> list[Cell]:
    """Sort cells by the time of their last run. Cells that never ran come first."""
    last: dict[str, str] = {}
    for suite in previous:
        for cell in suite.cells:
            if cell.state is not CellState.NOT_RUN:
                last[cell.name] = max(last.get(cell.name, ""), cell.started or suite.started)
    return sorted(cells, key=lambda cell: last.get(cell.name, ""))


class SuiteRecord:
    """A suite and its folder. Every change of the suite is stored at once."""

    def __init__(self, folder: Path, suite: Suite, clock: Callable[[], float] = time.monotonic) -> None:
        self.folder = folder
        self.suite = suite
        self._clock = clock
        self._drawn: Suite | None = None
        self._drawn_at: float | None = None

    @cached_property
    def previous(self) -> Sequence[Suite]:
        """Suites of this name in the same store that began before this one, newest first."""
        return previous_suites(self.folder.parent.parent, self.suite.name, self.suite.started)

    def change(self, **changes: object) -> None:
        """Replace fields of the suite."""
        self.suite = structs.replace(self.suite, **changes)
        self.suite.save(self.folder)

    def update(self, *cells: Cell) -> None:
        """Replace the cells of these names."""
        new = {cell.name: cell for cell in cells}
        self.change(cells=[new.get(cell.name, cell) for cell in self.suite.cells])

    def runs_of(self, cell: Cell) -> Path:
        """The store of the cell's run."""
        return self.folder / RUNS / cell.slug

    def log_of(self, cell: Cell) -> Path:
        """The output of the cell's process."""
        return self.folder / LOGS / f"{cell.slug}.log"

    def result_of(self, cell: Cell) -> Path:
        """The file into which the cell's process writes its result."""
        return self.folder / LOGS / f"{cell.slug}.json"

    def run_of(self, cell: Cell) -> Path | None:
        """The folder of the cell's run; None if the run left none."""
        folders = sorted(
            path for path in self.runs_of(cell).glob("*") if path.is_dir() and not path.is_symlink()
        )
        return folders[-1] if folders else None

    def verdict_of(self, cell: Cell) -> Verdict | None:
        """The verdict in the folder of the cell's run; None if there is none that can be read."""
        if cell.run is None:
            return None
        try:
            return Verdict.load(self.folder / cell.run / "verdict.json")
        except UnreadableInput:
            return None

    def clear(self, cell: Cell) -> None:
        """Remove the files of an attempt that was killed."""
        shutil.rmtree(self.runs_of(cell), ignore_errors=True)
        self.result_of(cell).unlink(missing_ok=True)
        self.log_of(cell).unlink(missing_ok=True)

    def refresh_page(self) -> None:
        """Draw `index.html` if the suite has changed, at most every two seconds."""
        now = self._clock()
        recent = self._drawn_at is not None and now - self._drawn_at < DRAW_EVERY_S
        if self.suite is self._drawn or recent:
            return
        self._drawn = self.suite
        self._draw_page(compare(self.suite, self.previous))
        self._drawn_at = self._clock()

    def draw_pages(self) -> None:
        """Write `index.html`, `junit.xml`, `summary.md` and `news.md`. An error here changes no outcome."""
        try:
            for name, draw in (("junit.xml", junit), ("summary.md", summary), ("news.md", changes)):
                (self.folder / name).write_text(draw(self.suite), encoding="utf-8")
        except OSError as error:
            self._log_page_error(error)
        self._draw_page(self.suite)

    def _draw_page(self, suite: Suite) -> None:

        part = self.folder / "index.part"
        try:
            part.write_text(draw(suite), encoding="utf-8")
            part.replace(self.folder / "index.html")  # atomically, because a browser may be reading it
        except (OSError, TemplateError) as error:
            self._log_page_error(error)

    def _log_page_error(self, error: Exception) -> None:
        logging.getLogger(__name__).error("the pages of %s could not be written: %s", self.folder, error)


def create(store: Path, suite: Suite) -> SuiteRecord:
    """Create the folder of a new suite; `STORE/NAME/latest` points to it. Raises `EnvironmentFailure`."""
    record = SuiteRecord(create_folder(store, suite.name, datetime.now(UTC), (RUNS, LOGS)), suite)
    suite.save(record.folder)
    update_latest_link(store / suite.name, record.folder)
    return record


def folder_of(path: Path) -> Path:
    """The absolute path of a suite's folder. Raises `UsageError` if it is none."""
    if not (path / SUITE_FILE).is_file():
        raise UsageError(
            f"{path} is not a suite (there is no {SUITE_FILE}): name the folder of a suite, such as store/NAME/TIME"
        )
    return path.resolve()  # `latest` is a link; previous suites are beside the real folder


def lock(folder: Path) -> AbstractContextManager[None]:
    """Hold the lock of a suite's folder. Raises `UsageError` if another process holds it."""
    return sole_use(folder / LOCK, f"{folder}: this suite is still running: wait for its end")


def remove_good_evidence(record: SuiteRecord) -> str:
    """Remove the evidence of valid and caught runs (`--keep-evidence bad`). Returns one sentence for the user.

    A known failure keeps its evidence, because its cause must be found before its last day. A run without a verdict
    in its folder keeps its evidence too.
    """
    runs = [run for cell in record.suite.cells if (run := _good_run(record, cell)) is not None]
    failed = [run for run in runs if not _remove_evidence(run)]
    if failed:
        return f"the evidence of {plural(len(failed), 'run')} could not be removed, for instance {failed[0]}"
    return f"removed the evidence of {plural(len(runs), 'good run')}"


def _good_run(record: SuiteRecord, cell: Cell) -> Path | None:
    """The folder of a run whose evidence can be removed.

    None if the cell is not good, or if its folder does not belong to it.
    """
    good = cell.state in (CellState.VALID, CellState.CAUGHT)
    if not good or cell.run is None or record.verdict_of(cell) is None:
        return None
    run = record.folder / cell.run
    inside = run.resolve().parent.parent == (record.folder / RUNS).resolve()
    own = inside and cell.slug and run.parent == record.runs_of(cell) and not run.is_symlink()
    return run if own else None


def _remove_evidence(run: Path) -> bool:
    """Remove all files of a run that are not kept, and note it in the report. False if a file could not be removed."""
    report = run / "report.html"
    with suppress(OSError, UnicodeDecodeError):
        text = report.read_text(encoding="utf-8")
        if BANNER not in text:
            report.write_text(text.replace("<main>\n", BANNER, 1), encoding="utf-8")
    removed = True
    for path in run.iterdir():
        if path.name in KEPT_FILES:
            continue
        try:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
        except OSError:
            removed = False
    return removed
