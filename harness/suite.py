"""A suite: what `suite.json` holds, of each of its runs and of the whole.

A suite is a matrix of runs. Each cell is one run, in one state; the whole is as bad as its worst cell. The file is
written when the suite begins and after every run, whole or not at all, so that a suite that was killed goes on from it.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import Any

from harness.errors import EnvironmentFailure, ExitStatus, UnreadableInput
from harness.verdict import worst_status

SCHEMA_VERSION = 1
SUITE_FILE = "suite.json"

_SLUG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._=-]*")


class State(StrEnum):
    """What came of a cell."""

    VALID = "valid"
    CAUGHT = "caught"  # invalid, by nothing but what the suite file expects of a planted defect
    KNOWN = "known"  # invalid, by nothing but failures that the suite file lists as known
    INVALID = "invalid"
    MISSED = "missed"  # valid, though the suite file expects a planted defect to be caught
    UNKNOWN = "unknown"
    FAILED = "failed"  # there is no verdict: Fencepost or its environment failed
    NOT_JUDGED = "not judged"  # the run is over
    NOT_RUN = "not run"

    @property
    def exit_status(self) -> ExitStatus:
        """What this cell alone returns to the shell; of one that did not run, nothing is known."""
        return {
            State.VALID: ExitStatus.VALID,
            State.CAUGHT: ExitStatus.VALID,
            State.KNOWN: ExitStatus.VALID,
            State.INVALID: ExitStatus.INVALID,
            State.MISSED: ExitStatus.INVALID,
            State.FAILED: ExitStatus.FAILURE,
        }.get(self, ExitStatus.UNKNOWN)

    @property
    def good(self) -> bool:
        """Whether nobody has to look at it."""
        return self in (State.VALID, State.CAUGHT, State.KNOWN)

    @property
    def judged(self) -> bool:
        """Whether there is a verdict."""
        return self.good or (self.bad and self is not State.FAILED)

    @property
    def bad(self) -> bool:
        """Whether somebody has to look at it."""
        return self in (State.INVALID, State.MISSED, State.UNKNOWN, State.FAILED)


@dataclass(frozen=True)
class Flake:
    """A cell in the latest suites of this name, this one included, in which the same was compared."""

    judged: int = 0  # in how many it has a verdict, or failed
    bad: int = 0  # in how many of them somebody had to look at it


@dataclass(frozen=True)
class Cell:
    """One run of a suite. `name` is its identity from one suite to the next."""

    name: str
    workload: str
    client: str
    nemesis: str  # as `--nemesis` asks for them; "drawn": by the seed
    kafka: str
    seed: int
    options: Mapping[str, Any]  # as test.toml has them, without secrets
    command: str  # repeats the run
    more: Mapping[str, str] = field(default_factory=dict)  # what else this cell sets, apart from other cells
    slug: str = ""  # of its folder in `runs`, and of its log in `logs`
    state: State = State.NOT_RUN
    reason: str = ""  # the verdict's; or why there is none
    anomalies: Mapping[str, int] = field(default_factory=dict)  # that the guarantee forbids: how many of each
    known: str = ""  # why the failure is known, as the suite file says it
    expected: str = ""  # why a defect is planted, as the suite file says it
    first: str = ""  # the first example of the worst anomaly, in a sentence
    remedy: str = (
        ""  # what to do: of an unknown run about its first reason, and where a planted defect was missed
    )
    codes: Sequence[str] = ()  # of the reasons of an unknown run, each with what it is about, sorted
    faults: Mapping[str, int] = field(default_factory=dict)  # how many of each acted; 0: of one that did not
    not_exercised: Mapping[str, str] = field(default_factory=dict)  # what did not occur, and why
    run: str | None = None  # the run's folder, from the suite's
    started: str | None = None  # UTC
    duration_s: float | None = None  # of the run, without its judging where all are judged together
    versions: Mapping[str, str] = field(default_factory=dict)
    fingerprint: str | None = None  # of what was compared: options and versions, without the seed
    before: State | None = None  # in the latest earlier suite that ran it; None: no other did
    new: bool = False  # it is bad now, and was good before, or was not there
    flake: Flake = field(default_factory=Flake)

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> "Cell":
        """The inverse of `asdict`. Raises TypeError, ValueError or KeyError."""
        told = {
            **{key: body[key] for key in _CELL_FIELDS},
            "state": State(body["state"]),
            "before": State(body["before"]) if body["before"] else None,
            "flake": Flake(**body["flake"]),
        }
        for key in _TEXTS:
            if not isinstance(told[key], str):
                raise TypeError(f"{key} of a cell is a text")
        for key in ("options", "more", "versions", *_COUNTS, "not_exercised"):
            if not isinstance(told[key], Mapping):
                raise TypeError(f"{key} of a cell is a table")
        for key in _COUNTS:
            if not all(type(count) is int for count in told[key].values()):
                raise TypeError(f"{key} of a cell are counts")
        for key in ("run", "started"):
            if not isinstance(told[key], str | None):
                raise TypeError(f"{key} of a cell is a text, or null")
        _require_length("duration_s of a cell", told["duration_s"])
        _require_length("time-limit of a cell", told["options"].get("time-limit", 0))
        if not _SLUG.fullmatch(told["slug"]):
            raise ValueError(f"slug of a cell is the name of a folder, not {told['slug']!r}")
        told["codes"] = tuple(map(str, told["codes"]))
        return cls(**told)


@dataclass(frozen=True)
class Suite:
    """All of `suite.json`."""

    name: str
    file: str  # as the command named it
    seed: int
    judge: str  # together, or each
    started: str  # UTC
    cells: Sequence[Cell]
    known: Sequence[Mapping[str, Any]] = ()  # the tables of the suite file
    expected: Sequence[Mapping[str, Any]] = ()  # and its tables of planted defects
    ended: str | None = None  # UTC; None: it goes on, or was killed
    interrupted: bool = False
    took_s: float = 0.0  # of wall clock, over all times that it was resumed
    judging_s: float = 0.0
    remarks: Sequence[str] = ()  # what is to be known and changes nothing: a known failure that is gone
    previous: str | None = None  # when the suite of this name before it began, UTC
    spark: Mapping[str, Any] = field(default_factory=dict)  # master and spark-conf, as test.toml has them
    sets: Mapping[str, Any] = field(
        default_factory=dict
    )  # what --set said, as test.toml has it, without secrets

    @property
    def exit_status(self) -> ExitStatus:
        """The worst of the cells that ran; of a suite that was interrupted, or of which none ran, at best unknown."""
        statuses = [cell.state.exit_status for cell in self.cells if cell.state is not State.NOT_RUN]
        return worst_status([*statuses, *([ExitStatus.UNKNOWN] if self.interrupted or not statuses else [])])

    def counts(self) -> dict[State, int]:
        """How many cells are in each state, in the order of `State`."""
        return {state: sum(cell.state is state for cell in self.cells) for state in State}

    def as_json(self) -> dict[str, Any]:
        """The document."""
        return {
            "schema": SCHEMA_VERSION,
            **asdict(self),
            "counts": {str(state): count for state, count in self.counts().items()},
            "exit_status": int(self.exit_status),
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> "Suite":
        """Read a document back. Raises TypeError, ValueError or KeyError where it is none."""
        if body["schema"] != SCHEMA_VERSION:
            raise ValueError(f"its schema is {body['schema']}, and this version reads {SCHEMA_VERSION}")
        told = {key: body[key] for key in _FIELDS}
        for key in ("name", "file", "judge", "started"):
            if not isinstance(told[key], str):
                raise TypeError(f"{key} is a text")
        for key in ("spark", "sets"):
            if not isinstance(told[key], Mapping):
                raise TypeError(f"{key} is a table")
        for key in ("took_s", "judging_s"):
            _require_length(key, told[key])
        return cls(**{**told, "cells": [Cell.from_json(cell) for cell in body["cells"]]})

    def save(self, folder: Path) -> None:
        """Write it whole or not at all. Raises `EnvironmentFailure`."""
        path = folder / SUITE_FILE
        part = path.with_suffix(".part")
        try:
            part.write_text(json.dumps(self.as_json(), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
            part.replace(path)
        except OSError as error:
            raise EnvironmentFailure(f"{path} could not be written: {error.strerror or error}") from error

    @classmethod
    def load(cls, folder: Path) -> "Suite":
        """Read it back; raises `UnreadableInput`, which names the file."""
        path = folder / SUITE_FILE
        try:
            return cls.from_json(json.loads(path.read_text(encoding="utf-8")))
        except OSError as error:
            raise UnreadableInput(f"{path} cannot be read: {error.strerror or error}") from error
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise UnreadableInput(
                f"{path} is not as a suite wrote it ({type(error).__name__}: {error})"
            ) from error


def _require_length(what: str, value: object) -> None:
    """Raise TypeError for what is no length of time in seconds, nor null."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise TypeError(f"{what} is a length of time, not {value!r}")


_FIELDS = tuple(one.name for one in fields(Suite))
_CELL_FIELDS = tuple(one.name for one in fields(Cell))
_TEXTS = (
    "name",
    "workload",
    "client",
    "nemesis",
    "kafka",
    "command",
    "reason",
    "slug",
    "known",
    "expected",
    "first",
    "remedy",
)
_COUNTS = ("anomalies", "faults")
