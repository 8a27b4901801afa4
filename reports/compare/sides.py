"""Read what a comparison needs of a run or a suite. A missing file makes numbers unknown, and is noted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from harness.common.documents import read_toml
from harness.common.errors import UnreadableInput
from harness.record.run_tables import PLAN, require_verdict
from harness.results.run_metadata import RunMetadata
from harness.results.suite import Cell, Suite
from harness.results.verdict import FaultReport, Verdict
from reports.compare.figures import Figures, measure
from reports.settings import flatten

OWN_NAMES = ("store", "name")
"""Options that only say where a run is stored."""


class SideKind(StrEnum):
    """What a side of a comparison is."""

    RUN = "run"
    SUITE = "suite"


@dataclass(frozen=True)
class ComparedRun:
    """One run of a side."""

    state: str  # of the cell of a suite, or the verdict of a run: "valid"
    seed: int | None
    cell: Cell | None = None  # None: the run was named alone
    verdict: Verdict | None = None  # None: there is none, for instance because the run failed
    figures: Figures = field(default_factory=Figures)
    versions: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)  # flat, with secrets
    notes: Sequence[str] = ()  # why numbers are not known

    @property
    def faults(self) -> Sequence[FaultReport]:
        """The faults, in the order of their injection."""
        return sorted(self.verdict.faults, key=lambda fault: fault.start_s) if self.verdict else ()


@dataclass(frozen=True)
class ComparedSide:
    """One of the two sides of a comparison."""

    kind: SideKind
    path: str  # as the user named it
    runs: Sequence[ComparedRun]
    title: str = ""  # of a suite: its name, its seed, and when it began


def read_run(path: str, folder: Path) -> ComparedSide:
    """Read a run that the user named. Raises `UnreadableInput` if it has no verdict, or if run.toml is damaged."""
    require_verdict(folder)
    verdict = Verdict.load(folder / "verdict.json")
    settings = _read_settings(folder / PLAN)
    run = ComparedRun(
        state=verdict.validity.name.lower(),
        seed=verdict.seed,
        verdict=verdict,
        settings=_flat(settings.get("options"), settings.get("workload")),
        **_measured(folder, verdict),
    )
    return ComparedSide(SideKind.RUN, path, [run], verdict.name)


def read_suite(path: str, folder: Path) -> ComparedSide:
    """Read a suite and the runs that it still has. Raises `UnreadableInput` if suite.json is damaged."""
    suite = Suite.load(folder)
    runs = [_read_cell(folder, cell) for cell in suite.cells]
    return ComparedSide(SideKind.SUITE, path, runs, f"{suite.name}, seed {suite.seed}, began {suite.started}")


def _read_cell(suite_folder: Path, cell: Cell) -> ComparedRun:
    """Read a run of a suite. If its folder has lost files, suite.json still has its state, options and versions."""
    run = ComparedRun(
        str(cell.state), cell.seed, cell, versions=cell.versions, settings=_flat(cell.options, None)
    )
    if cell.run is None:
        return run
    folder = suite_folder / cell.run
    try:
        verdict = Verdict.load(folder / "verdict.json") if cell.state.is_checked else None
        settings = _read_settings(folder / PLAN)
        return replace(
            run,
            verdict=verdict,
            settings=_flat(cell.options, settings.get("workload")),
            **_measured(folder, verdict),
        )
    except UnreadableInput as error:
        return replace(run, notes=(_in_folder(folder, error),))


def _measured(folder: Path, verdict: Verdict | None) -> dict[str, Any]:
    """Return `figures`, `versions` and `notes` of a run."""
    try:
        metadata = RunMetadata.load(folder / "metadata.json")
    except UnreadableInput as error:
        return {"notes": (_in_folder(folder, error),)}
    figures = measure(folder, metadata, verdict.faults if verdict else metadata.faults)
    return {"figures": figures, "versions": metadata.versions, "notes": tuple(figures.notes)}


def _in_folder(folder: Path, error: UnreadableInput) -> str:
    """Return the message with the names of files in the folder of the run, so that runs can have the same message."""
    return str(error).replace(f"{folder}/", "")


def _read_settings(path: Path) -> Mapping[str, Any]:
    try:
        return read_toml(path)
    except OSError as error:
        raise UnreadableInput(f"{path} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise UnreadableInput(f"{path} cannot be read: {error}") from error


def _flat(options: object, workload: object) -> dict[str, Any]:
    """Return the options by name, and the settings of the workload after `workload.`. Empty tables are left out."""
    flat = dict(flatten(options)) if isinstance(options, Mapping) else {}
    flat = {name: value for name, value in flat.items() if name not in OWN_NAMES and value != {}}
    return flat | (dict(flatten(workload, "workload.")) if isinstance(workload, Mapping) else {})
