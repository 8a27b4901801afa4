"""The content of `suite.json`: a suite, its cells, and their states.

A suite is a matrix of runs. A cell is one run and has one state; the suite is as bad as its worst cell. The file is
written atomically when the suite begins and after every run, so that a suite that was killed can be resumed.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct, field
from msgspec.structs import force_setattr

from harness.common.documents import encode, json_text, read_document
from harness.common.errors import EnvironmentFailure, ExitStatus, UnreadableInput
from harness.results import Duration
from harness.results.conclusions import Recurrence
from harness.results.verdict import worst_status

SCHEMA_VERSION = 1
NEW_KEYS = frozenset({"gaps_s", "recurrences"})
"""Keys that the suites of earlier versions do not have."""
SUITE_FILE = "suite.json"

SLUG = r"^[A-Za-z0-9][A-Za-z0-9._=-]*$"


class CellState(StrEnum):
    """The state of a cell."""

    VALID = "valid"
    CAUGHT = "caught"  # invalid, by nothing but what the suite file expects of a planted defect
    KNOWN = "known"  # invalid, by nothing but failures that the suite file lists as known
    INVALID = "invalid"
    MISSED = "missed"  # valid, though the suite file expects a planted defect to be caught
    UNKNOWN = "unknown"
    FAILED = "failed"  # there is no verdict: Fencepost or its environment failed
    NOT_CHECKED = "not checked"  # the run has ended, and was not checked yet
    NOT_RUN = "not run"

    @property
    def exit_status(self) -> ExitStatus:
        """Return the exit status of a suite that has only this cell."""
        return {
            CellState.VALID: ExitStatus.VALID,
            CellState.CAUGHT: ExitStatus.VALID,
            CellState.KNOWN: ExitStatus.VALID,
            CellState.INVALID: ExitStatus.INVALID,
            CellState.MISSED: ExitStatus.INVALID,
            CellState.FAILED: ExitStatus.FAILURE,
        }.get(self, ExitStatus.UNKNOWN)

    @property
    def good(self) -> bool:
        """Return whether the cell needs no attention."""
        return self in (CellState.VALID, CellState.CAUGHT, CellState.KNOWN)

    @property
    def is_checked(self) -> bool:
        """Return whether the cell has a verdict."""
        return self.good or (self.bad and self is not CellState.FAILED)

    @property
    def bad(self) -> bool:
        """Return whether the cell needs attention."""
        return self in (CellState.INVALID, CellState.MISSED, CellState.UNKNOWN, CellState.FAILED)


class Flake(Struct, frozen=True):
    """How often a cell was bad in the latest comparable suites, including this one."""

    with_verdict: int = 0  # suites in which the cell has a verdict, or failed
    bad: int = 0  # suites in which the cell needed attention


class Cell(Struct, frozen=True):
    """One run of a suite. `name` is its identity from one suite to the next."""

    name: str
    workload: str
    client: str
    nemesis: str  # the value of `--nemesis`; "drawn" if the seed draws the faults
    kafka: str
    seed: int
    options: Mapping[str, Any]  # as run.toml has them, without secrets
    command: str  # repeats the run
    explore: Mapping[str, Any] = {}  # what an exploration tries; empty: the cell is a run
    more: Mapping[str, str] = {}  # other options in which it differs from other cells
    slug: Annotated[str, Meta(pattern=SLUG)] = ""  # name of its folder in `runs` and of its log in `logs`
    state: CellState = CellState.NOT_RUN
    reason: str = ""  # the summary of the verdict; without a verdict: why there is none
    anomalies: Mapping[str, int] = {}  # number of findings by anomaly, if not allowed
    known: str = ""  # why the failure is known (`[[known]]`)
    expected: str = ""  # why a defect is planted (`[[expected]]`)
    first: str = ""  # the first example of the worst anomaly, in a sentence
    remedy: str = ""  # what to do about the first reason of an unknown run, or about a missed defect
    codes: tuple[str, ...] = ()  # reason codes of an unknown run with their subjects, sorted
    faults: Mapping[str, int] = {}  # how often each fault acted, which may be 0
    gaps_s: Mapping[
        str, Duration
    ] = {}  # by fault, the longest time without a commit, in seconds; without faults for which it is not known
    not_exercised: Mapping[str, str] = {}  # by goal or fault: why it did not occur
    run: str | None = None  # the run folder, relative to the folder of the suite
    started: str | None = None  # UTC
    duration_s: Duration | None = None  # without the check, if all runs are checked together
    versions: Mapping[str, str] = {}
    fingerprint: str | None = None  # of options and versions, without the seed
    before: CellState | None = None  # its state in the latest previous suite that ran it
    new: bool = False  # it is bad now and was not in the previous suite
    flake: Flake = field(default_factory=Flake)

    def __post_init__(self) -> None:
        limit_s = self.options.get("time-limit", 0)
        if isinstance(limit_s, bool) or not isinstance(limit_s, int | float) or limit_s < 0:
            raise ValueError(f"time-limit is a number of seconds, not {limit_s!r}")


class Suite(Struct, frozen=True, tag_field="schema", tag=SCHEMA_VERSION):
    """The whole of `suite.json`."""

    name: str
    file: str  # as the command named it
    seed: int
    judge: str  # "together": all runs are checked in one job; "each": each run is checked when it ends
    started: str  # UTC
    cells: Sequence[Cell]
    known: Sequence[Mapping[str, Any]] = []  # the tables [[known]]
    expected: Sequence[Mapping[str, Any]] = []  # the tables [[expected]]
    ended: str | None = None  # UTC; None: it is running, or was killed
    interrupted: bool = False
    took_s: Duration = 0.0  # wall clock time, summed over all resumptions
    check_s: Duration = 0.0  # the part of `took_s` that the checks took
    remarks: Sequence[str] = []  # notes on known failures that are gone or expired
    # How often each anomaly came in the runs of this and of earlier suites of this name.
    recurrences: Sequence[Recurrence] = []
    previous: str | None = None  # when the previous suite of this name began, UTC
    spark: Mapping[str, Any] = {}  # master and spark-conf, as run.toml has them
    sets: Mapping[str, Any] = {}  # the options from --set, without secrets
    counts: Mapping[CellState, int] = {}  # computed: the number of cells in each state
    exit_status: ExitStatus = ExitStatus.UNKNOWN
    """Computed: the worst of the cells that ran; at best unknown if the suite was interrupted or no cell ran."""

    def __post_init__(self) -> None:
        counts = {state: sum(cell.state is state for cell in self.cells) for state in CellState}
        force_setattr(self, "counts", counts)
        statuses = [cell.state.exit_status for cell in self.cells if cell.state is not CellState.NOT_RUN]
        unknown = [ExitStatus.UNKNOWN] if self.interrupted or not statuses else []
        force_setattr(self, "exit_status", worst_status([*statuses, *unknown]))

    def save(self, folder: Path) -> None:
        """Write the file atomically. Raises `EnvironmentFailure`."""
        path = folder / SUITE_FILE
        part = path.with_suffix(".part")
        try:
            part.write_text(json_text(encode(self), indent=1) + "\n", encoding="utf-8")
            part.replace(path)
        except OSError as error:
            raise EnvironmentFailure(f"{path} could not be written: {error.strerror or error}") from error

    @classmethod
    def load(cls, folder: Path) -> "Suite":
        """Read the file. Raises `UnreadableInput`, which names it."""
        path = folder / SUITE_FILE
        try:
            return read_document(path, cls, new=NEW_KEYS)
        except OSError as error:
            raise UnreadableInput(f"{path} cannot be read: {error.strerror or error}") from error
        except ValueError as error:
            raise UnreadableInput(f"{path} was not written by a suite, or was changed: {error}") from error
