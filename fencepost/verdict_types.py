"""The types of the content of `verdict.json`. `make docs` makes this file from `harness/results`.

It imports no other package of Fencepost, because it is loaded into a user's process.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NotRequired, TypedDict


class ReasonDocument(TypedDict):
    """Why a run is unknown or a check was skipped, or a warning. docs/reasons.md lists the codes."""

    code: str
    text: str
    subject: NotRequired[str]
    remedy: NotRequired[str]
    because: NotRequired[str]
    rule: NotRequired[str]


class ContrastDocument(TypedDict):
    """A property that tells the affected subjects from the others."""

    dimension: str
    value: str
    sentence: str
    affected: int
    subjects: int
    others_affected: int
    others: int


class OverTimeDocument(TypedDict):
    """How many affected subjects there are in each interval of the run."""

    from_s: float
    width_s: int
    counts: Sequence[int]


class AffectedDocument(TypedDict):
    """The subjects of the findings of one anomaly, and how they differ from the subjects without a finding."""

    noun: str
    affected: int
    subjects: int
    contrasts: NotRequired[Sequence[ContrastDocument]]
    compared: NotRequired[Sequence[str]]
    over_time: NotRequired[OverTimeDocument]


class OriginDocument(TypedDict):
    """Where the findings of an anomaly come from, as far as counts before and after the faults show it."""

    kind: str
    sentence: str


class AnomalyDocument(TypedDict):
    """The findings of one anomaly in one run."""

    count: int
    allowed: bool
    warning: NotRequired[bool]
    because: NotRequired[str]
    allowed_by: NotRequired[str]
    words: NotRequired[str]
    meaning: NotRequired[str]
    permitted: NotRequired[int]
    examples: NotRequired[Sequence[Mapping[str, Any]]]
    sentences: NotRequired[Sequence[str]]
    affected: NotRequired[AffectedDocument]
    origin: NotRequired[OriginDocument]


class LivenessDocument(TypedDict):
    """The progress of a pipeline in the window of one fault. Durations are seconds. None: it did not happen, or the
    evidence does not show it."""

    first_commit_s: float | None
    first_commit_after_heal_s: float | None
    longest_gap_s: float | None
    worst_partition: str | None
    worst_partition_gap_s: float | None
    lso_still_s: float | None
    lso_partition: str | None
    rate_back_s: float | None
    latency_back_s: float | None
    lag_back_s: float | None
    not_measured: Sequence[str]
    slowest_input: str | None
    slowest_input_s: float | None
    inputs_not_back: Sequence[str]
    victim: str | None
    victim_commit_s: float | None
    victim_not_known: str | None
    aborted: int | None
    fenced: int | None
    rebalances: int | None
    bound_s: float | None
    seconds_before: int | None
    not_known: str | None


class FaultDocument(TypedDict):
    """The effect of one planned fault. Times are seconds since the run began."""

    fault: str
    target: str
    start_s: float
    end_s: float | None
    acted: bool
    evidence: str
    struck: str
    details: NotRequired[Mapping[str, str]]
    liveness: NotRequired[LivenessDocument]
    halts: NotRequired[bool]


class ChurnDocument(TypedDict):
    """One change of a stage's workers, and the partitions that moved. Times are seconds since the run began."""

    stage: str
    joined: str | None
    left: str | None
    start_s: float
    end_s: float
    to: Sequence[str]
    away: Sequence[str]
    why: str


class EntryCountsDocument(TypedDict):
    """How many log entries of each kind a range of a partition has."""

    committed_records: int
    open_records: int
    aborted_records: int
    commit_markers: int
    abort_markers: int
    sentinels: int


class PartitionLagDocument(TypedDict):
    """The lag of a group in one partition: the log entries from its committed offset to the log end."""

    stage: str
    group: str | None
    topic: str
    partition: int | None
    committed: int | None
    end: int | None
    entries: EntryCountsDocument | None
    not_known: str
    pending: int | None
    between: str


class LagDocument(TypedDict):
    """The lag of the groups of a run: one row for each group and each partition that its stage reads."""

    summary: str
    entries: EntryCountsDocument
    all_rows: int
    unknown_rows: int
    not_known: str
    rows: Sequence[PartitionLagDocument]


class UnsettledDocument(TypedDict):
    """Operations of which no evidence says whether they took effect."""

    count: int
    examples: Sequence[Mapping[str, Any]]


class NotDecidedDocument(TypedDict):
    """Rows that a check could not decide: evidence is missing that would tell an anomaly from a late record."""

    check: str
    count: int
    subjects: int
    noun: str
    why: str
    remedy: str
    partitions: NotRequired[Mapping[str, int]]
    contrasts: NotRequired[Sequence[ContrastDocument]]
    over_time: NotRequired[OverTimeDocument]
    examples: NotRequired[Sequence[Mapping[str, Any]]]
    sentences: NotRequired[Sequence[str]]


class ControlDocument(TypedDict):
    """The same run without faults, which `fencepost run --control` carries out first."""

    folder: str
    valid: bool | str
    summary: str
    anomalies: Mapping[str, int]


class VerdictDocument(TypedDict):
    """The content of `verdict.json`."""

    schema: int
    history: str
    name: str
    seed: int | None
    valid: bool | Literal["unknown"]
    summary: str
    anomalies: Mapping[str, AnomalyDocument]
    not_checked_because: Mapping[str, ReasonDocument]
    not_decided: Sequence[NotDecidedDocument]
    not_exercised: Mapping[str, str]
    unknown_because: Sequence[ReasonDocument]
    warnings: Sequence[ReasonDocument]
    checked: Sequence[str]
    faults: Sequence[FaultDocument]
    churn: Sequence[ChurnDocument]
    coverage: Mapping[str, int]
    stats: Mapping[str, int]
    unsettled: UnsettledDocument
    requests: Mapping[str, Sequence[int]]
    api_errors: Mapping[str, Mapping[str, int]]
    left: LagDocument | None
    control: ControlDocument | None
    not_checked: Mapping[str, str]
    error: NotRequired[str]  # why the history could not be read; then there are only three keys
