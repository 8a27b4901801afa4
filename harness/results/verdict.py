"""The verdict: what `verdict.json` holds, and how its parts add up.

The worst wins, in the order valid < unknown < invalid. Nothing checked is nothing known.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import chain
from pathlib import Path
from typing import Any

from harness.common.errors import ExitStatus, UnreadableInput
from harness.results.membership_changes import MembershipChange
from harness.results.reasons import Reason

SCHEMA_VERSION = 1


class Validity(IntEnum):
    """Ordered by how much it outweighs the others."""

    VALID = 0
    UNKNOWN = 1
    INVALID = 2

    @property
    def json(self) -> bool | str:
        """As `verdict.json` says it: true, false or "unknown"."""
        return "unknown" if self is Validity.UNKNOWN else self is Validity.VALID

    @property
    def exit_status(self) -> ExitStatus:
        """What the shell is told of a single history."""
        return {
            Validity.VALID: ExitStatus.VALID,
            Validity.UNKNOWN: ExitStatus.UNKNOWN,
            Validity.INVALID: ExitStatus.INVALID,
        }[self]

    @classmethod
    def parse(cls, value: bool | str) -> "Validity":
        """The inverse of `json`."""
        for validity in cls:
            if validity.json is value or (isinstance(value, str) and validity.json == value):
                return validity
        raise UnreadableInput(f'a verdict\'s "valid" must be true, false or "unknown", not {value!r}')


CALLER = "--allow"
"""Who permits what the command line says."""
STAGE = "the stage"
"""Who permits what the guarantee of one stage does, in a pipeline that promises more."""


@dataclass(frozen=True)
class AnomalyFindings:
    """The findings of one anomaly in one run."""

    count: int
    examples: Sequence[Mapping[str, Any]]  # the first, in the checker's stated order
    allowed: bool = False  # the workload's guarantee permits it
    warning: bool = False  # listed, and never decides; then `allowed` is true as well
    because: str | None = None  # the anomaly that this one follows from
    allowed_by: str | None = None  # who permits it: Kafka, subscribe, --allow, the workload
    sentences: Sequence[str] = ()  # each example, told
    words: str = ""  # how many, of what: "3 outputs too many: their inputs took effect twice"
    meaning: str = ""  # what the anomaly is
    permitted: int = 0  # how many more there are that the guarantee of their stage permits

    @property
    def example(self) -> Mapping[str, Any] | None:
        """The first, of an anomaly that counts; None of one that is allowed."""
        return self.examples[0] if self.examples and not self.allowed else None

    @property
    def allowed_by_caller(self) -> bool:
        """Whether it is allowed for no other reason than that the caller said so."""
        return self.allowed_by == CALLER

    def as_json(self) -> dict[str, Any]:
        """As it stands under its name in `anomalies`."""
        body: dict[str, Any] = {"count": self.count, "allowed": self.allowed}
        if self.warning:
            body["warning"] = True
        if self.because:
            body["because"] = self.because
        if self.allowed_by:
            body["allowed_by"] = self.allowed_by
        for key, words in (("words", self.words), ("meaning", self.meaning)):
            if words:
                body[key] = words
        if self.permitted:
            body["permitted"] = self.permitted
        body["examples"] = [dict(example) for example in self.examples]
        if self.sentences:
            body["sentences"] = list(self.sentences)
        return body


@dataclass(frozen=True)
class FaultReport:
    """What one strike did. Times are seconds since the run began; it starts when it strikes, and not while it waits
    for its moment.
    """

    fault: str
    target: str
    start_s: float
    end_s: float | None
    acted: bool
    evidence: str
    struck: str  # "broker 2 was killed"
    details: Mapping[str, str] = field(default_factory=dict)
    """What it hit, by name: `broker`, `worker` (its journal), `step`, `transactional_id`, `state`, `group` or
    `partition`."""

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> "FaultReport":
        """The inverse of `as_json`. Raises TypeError."""
        report = cls(**body)
        told: Iterable[tuple[object, object]] = (
            report.details.items() if isinstance(report.details, Mapping) else [(None, None)]
        )
        words = (report.fault, report.target, report.evidence, report.struck, *chain(*told))
        if type(report.acted) is not bool or not all(isinstance(one, str) for one in words):
            raise TypeError(f"no fault is {body!r}")
        return report

    def as_json(self) -> dict[str, Any]:
        """As it stands in `faults`."""
        return {
            "fault": self.fault,
            "target": self.target,
            "start_s": self.start_s,
            "end_s": self.end_s,
            "acted": self.acted,
            "evidence": self.evidence,
            "struck": self.struck,
            **({"details": dict(self.details)} if self.details else {}),
        }


def checks_without_evidence(not_checked: Mapping[str, Reason]) -> dict[str, Reason]:
    """The checks that had no evidence; not those that are not for this kind of history or of workload."""
    return {name: reason for name, reason in not_checked.items() if reason.code.applicable}


@dataclass(frozen=True)
class IndeterminateOperations:
    """Operations of which neither their client nor the evidence says whether they took effect."""

    count: int = 0
    examples: Sequence[Mapping[str, Any]] = field(default_factory=list)  # the first of them

    def as_json(self) -> dict[str, Any]:
        """As it stands in `unsettled`."""
        return {"count": self.count, "examples": [dict(example) for example in self.examples]}


@dataclass(frozen=True)
class CheckResult:
    """What the checkers say of one run, before the run's own circumstances are weighed."""

    anomalies: Mapping[str, AnomalyFindings]
    not_checked: Mapping[str, Reason]  # without evidence: alone it changes nothing
    broken: Mapping[
        str, Reason
    ]  # checks that had their evidence and did not run, evidence that is short: unknown
    checked: Sequence[str] = ()  # the anomalies that were looked for
    coverage: Mapping[str, int] = field(default_factory=dict)
    stats: Mapping[str, int] = field(default_factory=dict)
    unsettled: IndeterminateOperations = field(default_factory=IndeterminateOperations)


@dataclass(frozen=True)
class Verdict:
    """All of `verdict.json`."""

    history: str
    name: str
    seed: int | None
    valid: Validity
    summary: str
    anomalies: Mapping[str, AnomalyFindings] = field(default_factory=dict)
    not_checked: Mapping[str, Reason] = field(default_factory=dict)
    not_exercised: Mapping[str, str] = field(default_factory=dict)
    unknown_because: Sequence[Reason] = ()  # each reason that keeps a run from being valid
    warnings: Sequence[
        Reason
    ] = ()  # what changes nothing, and is to be known: workers that ended by themselves
    checked: Sequence[str] = ()  # the anomalies that were looked for
    faults: Sequence[FaultReport] = ()
    churn: Sequence[MembershipChange] = ()  # what moved when workers joined and left; no faults
    coverage: Mapping[str, int] = field(default_factory=dict)
    stats: Mapping[str, int] = field(default_factory=dict)
    unsettled: IndeterminateOperations = field(default_factory=IndeterminateOperations)
    requests: Mapping[str, Sequence[int]] = field(default_factory=dict)  # the versions that the workers spoke

    def as_json(self) -> dict[str, Any]:
        """The document."""
        return {
            "schema": SCHEMA_VERSION,
            "history": self.history,
            "name": self.name,
            "seed": self.seed,
            "valid": self.valid.json,
            "summary": self.summary,
            "anomalies": {name: found.as_json() for name, found in self.anomalies.items()},
            "not_checked": {name: reason.text for name, reason in self.not_checked.items()},
            "not_checked_because": {name: reason.as_json() for name, reason in self.not_checked.items()},
            "not_exercised": dict(self.not_exercised),
            "unknown_because": [reason.as_json() for reason in self.unknown_because],
            "warnings": [reason.as_json() for reason in self.warnings],
            "checked": list(self.checked),
            "faults": [fault.as_json() for fault in self.faults],
            **({"churn": [one.as_json() for one in self.churn]} if self.churn else {}),
            "coverage": dict(self.coverage),
            "stats": dict(self.stats),
            "unsettled": self.unsettled.as_json(),
            "requests": {name: list(versions) for name, versions in self.requests.items()},
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> "Verdict":
        """Read a document back; raises `UnreadableInput` where it is not one."""
        try:
            return cls(
                history=body["history"],
                name=body["name"],
                seed=body["seed"],
                valid=Validity.parse(body["valid"]),
                summary=body["summary"],
                anomalies={name: AnomalyFindings(**found) for name, found in body["anomalies"].items()},
                not_checked={
                    name: Reason.from_json(reason) for name, reason in body["not_checked_because"].items()
                },
                not_exercised=body["not_exercised"],
                unknown_because=[Reason.from_json(reason) for reason in body["unknown_because"]],
                warnings=[Reason.from_json(reason) for reason in body["warnings"]],
                checked=body["checked"],
                faults=[FaultReport.from_json(fault) for fault in body["faults"]],
                churn=[MembershipChange.from_json(one) for one in body.get("churn", ())],
                coverage=body["coverage"],
                stats=body["stats"],
                unsettled=IndeterminateOperations(**body["unsettled"]),
                requests=body["requests"],
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise UnreadableInput(
                f"verdict.json is not a verdict of schema {SCHEMA_VERSION}: {error}"
            ) from error

    @classmethod
    def load(cls, path: Path) -> "Verdict":
        """Read `verdict.json`; raises `UnreadableInput`, which names the file."""
        try:
            return cls.from_json(json.loads(path.read_text()))
        except (OSError, ValueError, RecursionError) as error:
            raise UnreadableInput(f"{path} cannot be read: {error}") from error

    def save(self, path: Path) -> None:
        """Write `verdict.json`: whole, or not at all. Raises `OSError`."""
        part = path.with_name(f"{path.name}.part")
        part.write_text(self.line() + "\n")
        part.replace(path)

    def line(self) -> str:
        """The document in one line, for `--json`."""
        return json.dumps(self.as_json(), ensure_ascii=False)


def worst_status(statuses: Iterable[ExitStatus]) -> ExitStatus:
    """Of several histories: the first of 4, 2, 1, 3, 0 that occurred; of none, unknown."""
    seen = set(statuses)
    for status in (ExitStatus.FAILURE, ExitStatus.USAGE, ExitStatus.INVALID, ExitStatus.UNKNOWN):
        if status in seen:
            return status
    return ExitStatus.VALID if seen else ExitStatus.UNKNOWN
