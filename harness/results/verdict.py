"""The verdict: the content of `verdict.json`.

A verdict is the worst of its parts, in the order valid < unknown < invalid. If nothing was checked, it is unknown.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from enum import IntEnum
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct, field
from msgspec.structs import force_setattr

from harness.common.documents import encode, json_text, read_document
from harness.common.errors import ExitStatus, UnreadableInput
from harness.results import Time
from harness.results.conclusions import Affected, ControlRun, NotDecided, Origin
from harness.results.example import Example, Operation
from harness.results.reasons import Reason
from harness.results.recovery import Lag, Liveness

SCHEMA_VERSION = 1
NEW_KEYS = frozenset({"api_errors", "churn", "control", "left", "not_decided"})
"""Keys that the verdicts of earlier versions do not have."""


class Validity(IntEnum):
    """The value of `valid` in a verdict. The greatest value of its parts wins."""

    VALID = 0
    UNKNOWN = 1
    INVALID = 2

    @property
    def json(self) -> bool | Literal["unknown"]:
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
    def parse(cls, value: bool | Literal["unknown"]) -> "Validity":
        """Return the validity with this value of `json`."""
        return next(validity for validity in cls if validity.json == value)


EXAMPLES = 10
"""How many examples of each anomaly a verdict has, unless it is asked for more."""
CALLER = "--allow"
"""The `allowed_by` of an anomaly that the user permits on the command line."""
STAGE = "the stage"
"""The `allowed_by` of an anomaly that the guarantee of one stage permits, though the pipeline promises more."""


class AnomalyFindings(Struct, frozen=True, omit_defaults=True):
    """The findings of one anomaly in one run."""

    count: Annotated[int, Meta(description="how many findings there are")]
    allowed: Annotated[bool, Meta(description="whether it is permitted, so that it decides no verdict")] = (
        field(default_factory=bool)
    )  # with a factory, it is always written
    warning: Annotated[
        bool,
        Meta(description="whether it is a warning, which never decides a verdict; `allowed` is true as well"),
    ] = False
    because: Annotated[str | None, Meta(description="the anomaly that causes this one")] = None
    allowed_by: Annotated[
        str | None,
        Meta(description="what permits it: `Kafka`, `subscribe`, `--allow`, `the workload` or `the stage`"),
    ] = None
    words: Annotated[str, Meta(description="the count in words: `3 inputs took effect more than once`")] = ""
    meaning: Annotated[str, Meta(description="the definition of the anomaly")] = ""
    permitted: Annotated[
        int, Meta(description="how many further findings there are that the guarantee of their stage permits")
    ] = 0
    examples: Annotated[
        Sequence[Example],
        Meta(description="the first findings, in the order that the page of the anomaly says"),
    ] = field(default_factory=list)
    sentences: Annotated[Sequence[str], Meta(description="a sentence for each example")] = []
    affected: Annotated[
        Affected | None,
        Meta(
            description="the inputs, records or transactions that the findings are about, and what they share; null: "
            "there are too few to compare"
        ),
    ] = None
    origin: Annotated[
        Origin | None,
        Meta(description="what the findings come from: faults, program or test; null: not judged"),
    ] = None

    @property
    def example(self) -> Example | None:
        """The first example. None if the anomaly is allowed or has no example."""
        return self.examples[0] if self.examples and not self.allowed else None

    @property
    def allowed_by_caller(self) -> bool:
        """Return whether it is allowed only because of `--allow`."""
        return self.allowed_by == CALLER


class FaultReport(Struct, frozen=True, omit_defaults=True):
    """The effect of one planned fault. Times are seconds since the run began.

    The fault starts when it is injected, not when it begins to wait for its target.
    """

    fault: Annotated[str, Meta(description="its name")]
    target: Annotated[str, Meta(description="its target, as the schedule names it")]
    start_s: Annotated[Time, Meta(description="when it was injected")]
    end_s: Annotated[Time | None, Meta(description="when it was healed; null: it was not healed")]
    acted: Annotated[bool, Meta(description="whether it acted")]
    evidence: Annotated[str, Meta(description="what shows that it acted, or why it did not")]
    struck: Annotated[str, Meta(description="what was done to the target, in words: `broker 2 was killed`")]
    details: Annotated[
        Mapping[str, str],
        Meta(
            description="the target, by kind: `broker` (`2, 3, 1`: in turn), `brokers` (`1, 3`: at the same time), "
            "their `role`, `worker` (its journal), `step`, `transactional_id`, `state`, `group`, "
            "`partition`, `topic`, `level` of a feature, `versions` of Kafka in turn, `rule` (the rules "
            "of the protocol proxy as its journal names them), `partitions_before` and "
            "`partitions_after` (how many partitions the topic had and has)"
        ),
    ] = {}
    liveness: Annotated[
        Liveness | None,
        Meta(description="how long the fault hurt. Only in `verdict.json`, if the fault acted"),
    ] = None
    halts: Annotated[
        bool | None,
        Meta(
            description="whether nothing could be committed during the fault, so that its duration adds to the bound"
            " of `stalled`. Runs of older versions do not say, and then it adds"
        ),
    ] = None

    @property
    def may_halt(self) -> bool:
        """Return whether it halted the pipeline, or the run does not say."""
        return self.halts is not False

    @property
    def rules(self) -> tuple[str, ...]:
        """Its rules, by their names in the journal of the protocol proxy."""
        return tuple(filter(None, self.details.get("rule", "").split(", ")))


class MembershipChange(Struct, frozen=True):
    """One change of a stage's workers, and the partitions that moved. Times are seconds since the run began."""

    stage: Annotated[str, Meta(description="the stage whose workers changed")]
    joined: Annotated[
        str | None, Meta(description="the journal of the worker that joined; null: none joined")
    ]
    left: Annotated[str | None, Meta(description="the journal of the worker that left; null: none left")]
    start_s: Annotated[Time, Meta(description="when the change began, in seconds since the run began")]
    end_s: Annotated[Time, Meta(description="when it was done")]
    to: Annotated[tuple[str, ...], Meta(description="the partitions that the new worker got")] = ()
    away: Annotated[
        tuple[str, ...],
        Meta(description="the partitions that other workers got from the one that left"),
    ] = ()
    why: Annotated[str, Meta(description="why the change was not carried out completely; empty: it was")] = ""

    @property
    def partitions(self) -> Sequence[str]:
        """All partitions that moved."""
        return sorted({*self.to, *self.away})


def checks_without_evidence(not_checked: Mapping[str, Reason]) -> dict[str, Reason]:
    """Return the checks whose evidence is missing, without those that do not apply to this history or workload."""
    return {name: reason for name, reason in not_checked.items() if reason.code.applicable}


class IndeterminateOperations(Struct, frozen=True):
    """Operations of which no evidence says whether they took effect."""

    count: int = 0
    examples: Annotated[Sequence[Operation], Meta(description="the first ones")] = []


@dataclass(frozen=True)
class CheckResult:
    """The results of the checkers for one run. The verdict depends on the run metadata as well."""

    anomalies: Mapping[str, AnomalyFindings]
    not_checked: Mapping[str, Reason]  # by check that was left out; does not change the verdict
    broken: Mapping[
        str, Reason
    ]  # by check or table: a crash, or evidence that is missing; the run is unknown
    checked: Sequence[str] = ()  # the anomalies that were searched for
    coverage: Mapping[str, int] = dataclass_field(default_factory=dict)
    stats: Mapping[str, int] = dataclass_field(default_factory=dict)
    unsettled: IndeterminateOperations = dataclass_field(default_factory=IndeterminateOperations)
    not_decided: Sequence[NotDecided] = dataclass_field(default_factory=list)


class Verdict(Struct, frozen=True, tag_field="schema", tag=SCHEMA_VERSION):
    """The content of `verdict.json`."""

    history: Annotated[str, Meta(description="the path of the history, as in the command")]
    name: Annotated[str, Meta(description="of the run")]
    seed: Annotated[int | None, Meta(description="of the run; null: it has none")]
    valid: Annotated[bool | Literal["unknown"], Meta(description='`true`, `false` or `"unknown"`')]
    summary: Annotated[str, Meta(description="the reason for `valid`, in a sentence")]
    anomalies: Annotated[
        Mapping[str, AnomalyFindings],
        Meta(description="by name, the anomalies that were found ([below](#anomalies))"),
    ] = {}
    not_checked_because: Annotated[
        Mapping[str, Reason],
        Meta(
            description="checks that were left out because their evidence is missing, or because they do not apply "
            "to this history or workload, and why. A left-out check does not make the run unknown, "
            "unless the same reason is also in `unknown_because`"
        ),
    ] = {}
    not_decided: Annotated[
        Sequence[NotDecided],
        Meta(
            description="the rows that checks could not decide, why, and what would decide them "
            "([below](#not-decided)). They are no findings, and may be some"
        ),
    ] = []
    not_exercised: Annotated[
        Mapping[str, str],
        Meta(
            description="by name, why a goal was not reached, a fault was not injected, or a permitted anomaly did "
            "not occur. A goal that was not reached makes the run unknown, unless the run did not have "
            "to reach it. A fault that did not fit into the time limit does not change the verdict"
        ),
    ] = {}
    unknown_because: Annotated[
        Sequence[Reason],
        Meta(description="each reason that keeps the run from being valid ([below](#reasons))"),
    ] = []
    warnings: Annotated[
        Sequence[Reason],
        Meta(
            description="reasons that do not change the verdict, for instance a worker that ended by itself"
        ),
    ] = []
    checked: Annotated[Sequence[str], Meta(description="the anomalies that were checked")] = []
    faults: Annotated[
        Sequence[FaultReport], Meta(description="the faults, in the order of their starts ([below](#faults))")
    ] = []
    churn: Annotated[
        Sequence[MembershipChange],
        Meta(
            description="the changes of workers that join and leave on purpose ([below](#churn)). They are not "
            "faults"
        ),
    ] = []
    coverage: Annotated[
        Mapping[str, int],
        Meta(
            description="`inputs`: visible records of the topics that stages read; `outputs`: visible records that "
            "name their inputs; `committed` and `aborted` transactions; operations that were `fenced`; "
            "and the counts for the goals of the run (`read within transactions`, `partitions given up`,"
            " ...). `inputs` is 0 if no input has an expected output. In an external history, `outputs` "
            "counts all records that were sent or polled, and `committed` and `aborted` count the "
            "operations (txn, send, poll) that ended `ok` and `fail`"
        ),
    ] = {}
    stats: Annotated[
        Mapping[str, int],
        Meta(
            description="counts of all operations except initialisations: `ops`, and how many ended `ok`, `fail`, "
            "`info`. For transactions that ended `info`, the broker logs show how many were committed, "
            "aborted, or are still open: `info_committed`, `info_aborted`, `info_open`. The rest is "
            "indeterminate (`unsettled`). In an external history, `open` counts operations that never "
            "ended, and `passed_over` those of an unknown kind (`f`)"
        ),
    ] = {}
    unsettled: Annotated[
        IndeterminateOperations,
        Meta(
            description="indeterminate operations: their client got no response, and no marker and no read shows "
            "whether they took effect. `count`, and the first ones in `examples`"
        ),
    ] = field(default_factory=IndeterminateOperations)
    requests: Annotated[
        Mapping[str, Sequence[int]],
        Meta(
            description="by request (`EndTxn`), the versions that the workers sent to the brokers ([what they "
            "mean](clients.md#versions-of-requests)). Empty if no fault of the run needs the protocol "
            "proxy on the links of the workers"
        ),
    ] = {}
    api_errors: Annotated[
        Mapping[str, Mapping[str, int]],
        Meta(
            description="by API (`EndTxn`) and error (`NOT_COORDINATOR`), how many responses with this error clients"
            " got through the protocol proxy, those that a rule made included. Errors in responses to "
            "Fetch and Metadata are not counted. Empty if no protocol proxy was on the links of clients,"
            " or if they got no error"
        ),
    ] = {}
    left: Annotated[
        Lag | None,
        Meta(
            description="what is between the committed offsets and the log ends ([below](#what-is-left)). It never "
            "changes `valid`. null in an external history"
        ),
    ] = None
    control: Annotated[
        ControlRun | None,
        Meta(description="the same run without faults ([below](#control)); null: there was none"),
    ] = None
    not_checked: Annotated[Mapping[str, str], Meta(description="the texts of `not_checked_because`")] = {}

    def __post_init__(self) -> None:
        texts = {name: reason.text for name, reason in self.not_checked_because.items()}
        force_setattr(self, "not_checked", texts)

    @property
    def validity(self) -> Validity:
        """The value of `valid`."""
        return Validity.parse(self.valid)

    @classmethod
    def load(cls, path: Path) -> "Verdict":
        """Read `verdict.json`. Raises `UnreadableInput`, which names the file."""
        try:
            return read_document(path, cls, new=NEW_KEYS)
        except (OSError, ValueError) as error:
            raise UnreadableInput(f"{path} cannot be read: {error}") from error

    def save(self, path: Path) -> None:
        """Write `verdict.json` atomically. Raises `OSError`."""
        part = path.with_name(f"{path.name}.part")
        part.write_text(self.line() + "\n", encoding="utf-8")
        part.replace(path)

    def line(self) -> str:
        """Return the content of the file in one line, for `--json`."""
        return json_text(encode(self))


def worst_status(statuses: Iterable[ExitStatus]) -> ExitStatus:
    """Return the exit status of several histories: the first of 4, 2, 1, 3, 0 that occurs. Without histories: 3."""
    statuses = set(statuses)
    for status in (ExitStatus.FAILURE, ExitStatus.USAGE, ExitStatus.INVALID, ExitStatus.UNKNOWN):
        if status in statuses:
            return status
    return ExitStatus.VALID if statuses else ExitStatus.UNKNOWN
