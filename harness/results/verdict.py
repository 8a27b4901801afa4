"""The verdict: the content of `verdict.json`.

A verdict is the worst of its parts, in the order valid < unknown < invalid. If nothing was checked, it is unknown.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import chain
from pathlib import Path
from typing import Any

from harness.common.documents import json_text, read_json
from harness.common.errors import ExitStatus, UnreadableInput
from harness.results.example import Example, Operation
from harness.results.lag import Lag
from harness.results.liveness import Liveness
from harness.results.membership_changes import MembershipChange
from harness.results.reasons import Reason

SCHEMA_VERSION = 1


class Validity(IntEnum):
    """The value of `valid` in a verdict. The greatest value of its parts wins."""

    VALID = 0
    UNKNOWN = 1
    INVALID = 2

    @property
    def json(self) -> bool | str:
        """The value in `verdict.json`: true, false or "unknown"."""
        return "unknown" if self is Validity.UNKNOWN else self is Validity.VALID

    @property
    def exit_status(self) -> ExitStatus:
        """The exit status if this is the only history."""
        return {
            Validity.VALID: ExitStatus.VALID,
            Validity.UNKNOWN: ExitStatus.UNKNOWN,
            Validity.INVALID: ExitStatus.INVALID,
        }[self]

    @classmethod
    def parse(cls, value: bool | str) -> "Validity":
        """Read a value of `json`. Raises `UnreadableInput`."""
        for validity in cls:
            if validity.json is value or (isinstance(value, str) and validity.json == value):
                return validity
        raise UnreadableInput(f'a verdict\'s "valid" must be true, false or "unknown", not {value!r}')


CALLER = "--allow"
"""The `allowed_by` of an anomaly that the user permits on the command line."""
MOST_S = 7 * 86400.0
"""No run lasts longer than a week, because `time-limit` is at most a day. A greater time is damaged."""
STAGE = "the stage"
"""The `allowed_by` of an anomaly that the guarantee of one stage permits, though the pipeline promises more."""


def is_time(value: object) -> bool:
    """Return whether a value is a time of a run, in seconds since it began. It may be negative."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= MOST_S


@dataclass(frozen=True)
class AnomalyFindings:
    """The findings of one anomaly in one run."""

    count: int
    examples: Sequence[Example]  # the first findings, in the order that the checker states
    allowed: bool = False  # it decides no verdict
    warning: bool = False  # it is a warning, which never decides a verdict; `allowed` is true as well
    because: str | None = None  # the anomaly that causes this one
    allowed_by: str | None = None  # who permits it: Kafka, subscribe, --allow, the workload, the stage
    sentences: Sequence[str] = ()  # for each example, a sentence that describes it
    words: str = ""  # the count in words: "3 inputs took effect more than once"
    meaning: str = ""  # the definition of the anomaly
    permitted: int = 0  # further findings, which the guarantee of their stage permits

    @property
    def example(self) -> Example | None:
        """The first example. None if the anomaly is allowed or has no example."""
        return self.examples[0] if self.examples and not self.allowed else None

    @property
    def allowed_by_caller(self) -> bool:
        """Return whether it is allowed only because of `--allow`."""
        return self.allowed_by == CALLER

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> "AnomalyFindings":
        """Read what `as_json` returned. Raises KeyError or TypeError."""
        return cls(**{**body, "examples": [Example.from_json(example) for example in body["examples"]]})

    def as_json(self) -> dict[str, Any]:
        """Return the value in `anomalies`."""
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
        body["examples"] = [example.as_json() for example in self.examples]
        if self.sentences:
            body["sentences"] = list(self.sentences)
        return body


@dataclass(frozen=True)
class FaultReport:
    """The effect of one planned fault. Times are seconds since the run began.

    The fault starts when it is injected, not when it begins to wait for its target.
    """

    fault: str
    target: str
    start_s: float
    end_s: float | None  # None: it was not healed
    acted: bool
    evidence: str
    struck: str  # what was done to the target, in words: "broker 2 was killed"
    details: Mapping[str, str] = field(default_factory=dict)
    """The target, by kind: `broker` (`2, 3, 1`: in turn), `brokers` (`1, 3`: at the same time), their `role`, `worker`
    (its journal), `step`, `transactional_id`, `state`, `group`, `partition`, `topic` or `level` (of a feature). Also
    `versions` of Kafka, in turn, and `rule`: the rules of the protocol proxy, by their names in its journal. If the
    topic got partitions: `partitions_before` and `partitions_after`, their numbers as text."""
    liveness: Liveness | None = None
    """How long the fault hurt. It is computed with the verdict. None in metadata.json, and if the fault did not act."""
    halts: bool | None = None
    """Whether nothing could be committed during the fault. Then its duration adds to the bound of `stalled`. None if
    an older version stored the run. Then the duration adds, too, because a pipeline may not be accused of this time."""

    @property
    def may_halt(self) -> bool:
        """Return whether it halted the pipeline, or the run does not say."""
        return self.halts is not False

    @property
    def rules(self) -> tuple[str, ...]:
        """Its rules, by their names in the journal of the protocol proxy."""
        return tuple(filter(None, self.details.get("rule", "").split(", ")))

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> "FaultReport":
        """Read what `as_json` returned. Raises TypeError."""
        liveness = body.get("liveness")
        report = cls(**{**body, "liveness": None if liveness is None else Liveness.from_json(liveness)})
        details: Iterable[tuple[object, object]] = (
            report.details.items() if isinstance(report.details, Mapping) else [(None, None)]
        )
        texts = (report.fault, report.target, report.evidence, report.struck, *chain(*details))
        times = (report.start_s, 0.0 if report.end_s is None else report.end_s)
        are_times = all(map(is_time, times))
        if (
            type(report.acted) is not bool
            or (report.halts is not None and type(report.halts) is not bool)
            or not are_times
            or not all(isinstance(text, str) for text in texts)
        ):
            raise TypeError(f"{body!r} is not the report of a fault")
        return report

    def as_json(self) -> dict[str, Any]:
        """Return an entry of `faults`."""
        return {
            "fault": self.fault,
            "target": self.target,
            "start_s": self.start_s,
            "end_s": self.end_s,
            "acted": self.acted,
            "evidence": self.evidence,
            "struck": self.struck,
            **({"details": dict(self.details)} if self.details else {}),
            **({"halts": self.halts} if self.halts is not None else {}),
            **({"liveness": self.liveness.as_json()} if self.liveness else {}),
        }


def checks_without_evidence(not_checked: Mapping[str, Reason]) -> dict[str, Reason]:
    """Return the checks whose evidence is missing, without those that do not apply to this history or workload."""
    return {name: reason for name, reason in not_checked.items() if reason.code.applicable}


@dataclass(frozen=True)
class IndeterminateOperations:
    """Operations of which no evidence says whether they took effect."""

    count: int = 0
    examples: Sequence[Operation] = field(default_factory=list)  # the first ones

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> "IndeterminateOperations":
        """Read what `as_json` returned. Raises KeyError or TypeError."""
        return cls(body["count"], [Operation.from_json("operation", example) for example in body["examples"]])

    def as_json(self) -> dict[str, Any]:
        """Return the value of `unsettled`."""
        return {"count": self.count, "examples": [operation.as_json() for operation in self.examples]}


@dataclass(frozen=True)
class CheckResult:
    """The results of the checkers for one run. The verdict depends on the run metadata as well."""

    anomalies: Mapping[str, AnomalyFindings]
    not_checked: Mapping[str, Reason]  # by check that was left out; does not change the verdict
    broken: Mapping[
        str, Reason
    ]  # by check or table: a crash, or evidence that is missing; the run is unknown
    checked: Sequence[str] = ()  # the anomalies that were searched for
    coverage: Mapping[str, int] = field(default_factory=dict)
    stats: Mapping[str, int] = field(default_factory=dict)
    unsettled: IndeterminateOperations = field(default_factory=IndeterminateOperations)


@dataclass(frozen=True)
class Verdict:
    """The content of `verdict.json`."""

    history: str
    name: str
    seed: int | None
    valid: Validity
    summary: str
    anomalies: Mapping[str, AnomalyFindings] = field(default_factory=dict)
    not_checked: Mapping[str, Reason] = field(default_factory=dict)
    not_exercised: Mapping[str, str] = field(default_factory=dict)
    unknown_because: Sequence[Reason] = ()  # each reason that keeps a run from being valid
    warnings: Sequence[Reason] = ()  # these do not change the verdict
    checked: Sequence[str] = ()  # the anomalies that were looked for
    faults: Sequence[FaultReport] = ()
    churn: Sequence[MembershipChange] = ()  # workers that joined and left; these are not faults
    coverage: Mapping[str, int] = field(default_factory=dict)
    stats: Mapping[str, int] = field(default_factory=dict)
    unsettled: IndeterminateOperations = field(default_factory=IndeterminateOperations)
    requests: Mapping[str, Sequence[int]] = field(
        default_factory=dict
    )  # by request, the versions that workers sent
    api_errors: Mapping[str, Mapping[str, int]] = field(
        default_factory=dict
    )  # by API and error, the responses that clients got through the protocol proxy
    left: Lag | None = None  # what the groups of a stored run have not processed; never changes `valid`

    def as_json(self) -> dict[str, Any]:
        """Return the content of the file."""
        return {
            "schema": SCHEMA_VERSION,
            "history": self.history,
            "name": self.name,
            "seed": self.seed,
            "valid": self.valid.json,
            "summary": self.summary,
            "anomalies": {name: findings.as_json() for name, findings in self.anomalies.items()},
            "not_checked": {name: reason.text for name, reason in self.not_checked.items()},
            "not_checked_because": {name: reason.as_json() for name, reason in self.not_checked.items()},
            "not_exercised": dict(self.not_exercised),
            "unknown_because": [reason.as_json() for reason in self.unknown_because],
            "warnings": [reason.as_json() for reason in self.warnings],
            "checked": list(self.checked),
            "faults": [fault.as_json() for fault in self.faults],
            **({"churn": [change.as_json() for change in self.churn]} if self.churn else {}),
            "coverage": dict(self.coverage),
            "stats": dict(self.stats),
            "unsettled": self.unsettled.as_json(),
            "requests": {name: list(versions) for name, versions in self.requests.items()},
            "api_errors": {api: dict(errors) for api, errors in self.api_errors.items()},
            **({"left": self.left.as_json()} if self.left else {}),
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> "Verdict":
        """Read what `as_json` returned. Raises `UnreadableInput`."""
        try:
            return cls(
                history=body["history"],
                name=body["name"],
                seed=body["seed"],
                valid=Validity.parse(body["valid"]),
                summary=body["summary"],
                anomalies={
                    name: AnomalyFindings.from_json(value) for name, value in body["anomalies"].items()
                },
                not_checked={
                    name: Reason.from_json(reason) for name, reason in body["not_checked_because"].items()
                },
                not_exercised=body["not_exercised"],
                unknown_because=[Reason.from_json(reason) for reason in body["unknown_because"]],
                warnings=[Reason.from_json(reason) for reason in body["warnings"]],
                checked=body["checked"],
                faults=[FaultReport.from_json(fault) for fault in body["faults"]],
                churn=[MembershipChange.from_json(change) for change in body.get("churn", ())],
                coverage=body["coverage"],
                stats=body["stats"],
                unsettled=IndeterminateOperations.from_json(body["unsettled"]),
                requests=body["requests"],
                api_errors=body.get("api_errors", {}),
                left=Lag.from_json(body["left"]) if "left" in body else None,
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise UnreadableInput(
                f"verdict.json is not a verdict of schema {SCHEMA_VERSION}: {error}"
            ) from error

    @classmethod
    def load(cls, path: Path) -> "Verdict":
        """Read `verdict.json`. Raises `UnreadableInput`, which names the file."""
        try:
            return cls.from_json(read_json(path))
        except (OSError, ValueError) as error:
            raise UnreadableInput(f"{path} cannot be read: {error}") from error

    def save(self, path: Path) -> None:
        """Write `verdict.json` atomically. Raises `OSError`."""
        part = path.with_name(f"{path.name}.part")
        part.write_text(self.line() + "\n", encoding="utf-8")
        part.replace(path)

    def line(self) -> str:
        """Return the content of the file in one line, for `--json`."""
        return json_text(self.as_json())


def worst_status(statuses: Iterable[ExitStatus]) -> ExitStatus:
    """Return the exit status of several histories: the first of 4, 2, 1, 3, 0 that occurs. Without histories: 3."""
    statuses = set(statuses)
    for status in (ExitStatus.FAILURE, ExitStatus.USAGE, ExitStatus.INVALID, ExitStatus.UNKNOWN):
        if status in statuses:
            return status
    return ExitStatus.VALID if statuses else ExitStatus.UNKNOWN
