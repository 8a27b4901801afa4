"""The content of `suite.json`: a suite, its cells, and their states.

A suite is a matrix of runs. A cell is one run and has one state; the suite is as bad as its worst cell. The file is
written atomically when the suite begins and after every run, so that a suite that was killed can be resumed.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import Any

from harness.common.documents import json_text, read_json
from harness.common.errors import EnvironmentFailure, ExitStatus, UnreadableInput
from harness.results.verdict import worst_status

SCHEMA_VERSION = 1
SUITE_FILE = "suite.json"

_SLUG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._=-]*")


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


@dataclass(frozen=True)
class Flake:
    """How often a cell was bad in the latest comparable suites, including this one."""

    with_verdict: int = 0  # suites in which the cell has a verdict, or failed
    bad: int = 0  # suites in which the cell needed attention


@dataclass(frozen=True)
class Cell:
    """One run of a suite. `name` is its identity from one suite to the next."""

    name: str
    workload: str
    client: str
    nemesis: str  # the value of `--nemesis`; "drawn" if the seed draws the faults
    kafka: str
    seed: int
    options: Mapping[str, Any]  # as run.toml has them, without secrets
    command: str  # repeats the run
    more: Mapping[str, str] = field(
        default_factory=dict
    )  # other options in which it differs from other cells
    slug: str = ""  # name of its folder in `runs` and of its log in `logs`
    state: CellState = CellState.NOT_RUN
    reason: str = ""  # the summary of the verdict; without a verdict: why there is none
    anomalies: Mapping[str, int] = field(
        default_factory=dict
    )  # number of findings by anomaly, if not allowed
    known: str = ""  # why the failure is known (`[[known]]`)
    expected: str = ""  # why a defect is planted (`[[expected]]`)
    first: str = ""  # the first example of the worst anomaly, in a sentence
    remedy: str = ""  # what to do about the first reason of an unknown run, or about a missed defect
    codes: Sequence[str] = ()  # reason codes of an unknown run with their subjects, sorted
    faults: Mapping[str, int] = field(default_factory=dict)  # how often each fault acted, which may be 0
    gaps_s: Mapping[str, float] = field(
        default_factory=dict
    )  # by fault, the longest time without a commit, in seconds; without faults for which it is not known
    not_exercised: Mapping[str, str] = field(default_factory=dict)  # by goal or fault: why it did not occur
    run: str | None = None  # the run folder, relative to the folder of the suite
    started: str | None = None  # UTC
    duration_s: float | None = None  # without the check, if all runs are checked together
    versions: Mapping[str, str] = field(default_factory=dict)
    fingerprint: str | None = None  # of options and versions, without the seed
    before: CellState | None = None  # its state in the latest previous suite that ran it
    new: bool = False  # it is bad now and was not in the previous suite
    flake: Flake = field(default_factory=Flake)

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> "Cell":
        """Read what `asdict` returned. Raises TypeError, ValueError or KeyError."""
        values = _fields_from(cls, {"gaps_s": {}, **body})  # suites of earlier versions have no gaps
        if not _is_seconds(values["options"].get("time-limit", 0)):
            raise TypeError(
                f"time-limit of a cell is a number of seconds, not {values['options']['time-limit']!r}"
            )
        if not _SLUG.fullmatch(values["slug"]):
            raise ValueError(f"slug of a cell is the name of a folder, not {values['slug']!r}")
        return cls(
            **{
                **values,
                "state": CellState(values["state"]),
                "before": CellState(values["before"]) if values["before"] else None,
                "flake": Flake(**values["flake"]),
                "codes": tuple(map(str, values["codes"])),
            }
        )


@dataclass(frozen=True)
class Suite:
    """The whole of `suite.json`."""

    name: str
    file: str  # as the command named it
    seed: int
    judge: str  # "together": all runs are checked in one job; "each": each run is checked when it ends
    started: str  # UTC
    cells: Sequence[Cell]
    known: Sequence[Mapping[str, Any]] = ()  # the tables [[known]]
    expected: Sequence[Mapping[str, Any]] = ()  # the tables [[expected]]
    ended: str | None = None  # UTC; None: it is running, or was killed
    interrupted: bool = False
    took_s: float = 0.0  # wall clock time, summed over all resumptions
    check_s: float = 0.0  # the part of `took_s` that the checks took
    remarks: Sequence[str] = ()  # notes on known failures that are gone or expired
    previous: str | None = None  # when the previous suite of this name began, UTC
    spark: Mapping[str, Any] = field(default_factory=dict)  # master and spark-conf, as run.toml has them
    sets: Mapping[str, Any] = field(default_factory=dict)  # the options from --set, without secrets

    @property
    def exit_status(self) -> ExitStatus:
        """The worst of the cells that ran; at best unknown if the suite was interrupted or no cell ran."""
        statuses = [cell.state.exit_status for cell in self.cells if cell.state is not CellState.NOT_RUN]
        return worst_status([*statuses, *([ExitStatus.UNKNOWN] if self.interrupted or not statuses else [])])

    def counts(self) -> dict[CellState, int]:
        """Return the number of cells in each state, in the order of `CellState`."""
        return {state: sum(cell.state is state for cell in self.cells) for state in CellState}

    def as_json(self) -> dict[str, Any]:
        """Return the content of the file."""
        return {
            "schema": SCHEMA_VERSION,
            **asdict(self),
            "counts": {str(state): count for state, count in self.counts().items()},
            "exit_status": int(self.exit_status),
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> "Suite":
        """Read what `as_json` returned. Raises TypeError, ValueError or KeyError."""
        if body["schema"] != SCHEMA_VERSION:
            raise ValueError(f"its schema is {body['schema']}, and this version reads {SCHEMA_VERSION}")
        values = _fields_from(cls, body)
        return cls(**{**values, "cells": [Cell.from_json(cell) for cell in values["cells"]]})

    def save(self, folder: Path) -> None:
        """Write the file atomically. Raises `EnvironmentFailure`."""
        path = folder / SUITE_FILE
        part = path.with_suffix(".part")
        try:
            part.write_text(json_text(self.as_json(), indent=1) + "\n", encoding="utf-8")
            part.replace(path)
        except OSError as error:
            raise EnvironmentFailure(f"{path} could not be written: {error.strerror or error}") from error

    @classmethod
    def load(cls, folder: Path) -> "Suite":
        """Read the file. Raises `UnreadableInput`, which names it."""
        path = folder / SUITE_FILE
        try:
            return cls.from_json(read_json(path))
        except OSError as error:
            raise UnreadableInput(f"{path} cannot be read: {error.strerror or error}") from error
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise UnreadableInput(
                f"{path} was not written by a suite, or was changed ({type(error).__name__}: {error})"
            ) from error


def _is_seconds(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf


_TYPE_CHECKS: Mapping[Any, Callable[[Any], bool]] = {
    str: lambda value: isinstance(value, str),
    str | None: lambda value: isinstance(value, str | None),
    float: _is_seconds,
    float | None: lambda value: value is None or _is_seconds(value),
    Mapping[str, Any]: lambda value: isinstance(value, Mapping),
    Mapping[str, str]: lambda value: isinstance(value, Mapping),
    Mapping[str, float]: lambda value: isinstance(value, Mapping) and all(map(_is_seconds, value.values())),
    Mapping[str, int]: lambda value: (
        isinstance(value, Mapping) and all(type(count) is int for count in value.values())
    ),
}
"""By type of a field: a function that returns whether a JSON value has this type. Other types are converted."""


def _fields_from(cls: type[Cell | Suite], body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the fields of a dataclass. Raises KeyError or TypeError."""
    values = {column.name: body[column.name] for column in fields(cls)}
    for column in fields(cls):
        if column.type in _TYPE_CHECKS and not _TYPE_CHECKS[column.type](values[column.name]):
            raise TypeError(f"{column.name} of a {cls.__name__.lower()} cannot be {values[column.name]!r}")
    return values
