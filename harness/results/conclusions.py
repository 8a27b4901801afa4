"""Conclusions of a verdict: what the affected subjects share, what findings come from, and what was not decided.

A subject is what a finding is about: an input, a record or a transaction. `checkers.contrasts` makes these.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from harness.results import Count, Time
from harness.results.example import Example


class Contrast(Struct, frozen=True):
    """A property that tells the affected subjects from the others."""

    dimension: Annotated[
        str, Meta(description="what is compared: `partition`, `key by murmur2`, `commit and fault`, ...")
    ]
    value: Annotated[str, Meta(description="the property, in words: `in purchases/2`")]
    sentence: Annotated[str, Meta(description="the contrast with its counts, in a sentence")]
    affected: Annotated[Count, Meta(description="the affected subjects with the property")]
    subjects: Annotated[Count, Meta(description="all subjects with the property")]
    others_affected: Annotated[Count, Meta(description="the affected subjects without it")]
    others: Annotated[Count, Meta(description="all subjects without it")]


class OverTime(Struct, frozen=True):
    """How many affected subjects there are in each interval of the run."""

    from_s: Annotated[Time, Meta(description="the start of the first interval, since the run began")]
    width_s: Annotated[int, Meta(ge=1, description="the width of an interval, in seconds")]
    counts: Annotated[Sequence[Count], Meta(description="the affected subjects of each interval")]


class OriginKind(StrEnum):
    """What a finding comes from."""

    FAULT = "fault"
    PROGRAM = "program"
    TEST = "test"
    DISAGREEMENT = "program or test"
    NOT_KNOWN = "not known"


class Origin(Struct, frozen=True):
    """Where the findings of an anomaly come from, as far as counts before and after the faults show it."""

    kind: Annotated[
        OriginKind,
        Meta(
            description="`fault`: they come with the faults; `program`: the faults did not cause them, so look"
            " at the program and its configuration; `test`: the test writes inputs where the program does not look"
            " for them; `program or test`: they disagree about a content, and the evidence does not show which is"
            " wrong; `not known`: the counts do not tell"
        ),
    ]
    sentence: Annotated[str, Meta(description="why, with the counts")]


class Affected(Struct, frozen=True, omit_defaults=True):
    """The subjects of the findings of one anomaly, and how they differ from the subjects without a finding."""

    noun: Annotated[str, Meta(description="what a subject is: `inputs`, `records` or `transactions`")]
    affected: Annotated[Count, Meta(description="the subjects with a finding")]
    subjects: Annotated[Count, Meta(description="all subjects that were examined")]
    contrasts: Annotated[
        Sequence[Contrast], Meta(description="the best contrasts; empty: no property tells them apart")
    ] = []
    compared: Annotated[Sequence[str], Meta(description="the dimensions that were compared")] = []
    over_time: Annotated[
        OverTime | None, Meta(description="the affected subjects over time; null: their times are not known")
    ] = None


class NotDecided(Struct, frozen=True, omit_defaults=True):
    """Rows that a check could not decide: evidence is missing that would tell an anomaly from a late record."""

    check: Annotated[str, Meta(description="the anomaly that they may be")]
    count: Annotated[Count, Meta(description="the subjects that were not decided")]
    subjects: Annotated[Count, Meta(description="all subjects of the check")]
    noun: Annotated[str, Meta(description="what a subject is: `inputs`")]
    why: Annotated[str, Meta(description="which evidence is missing")]
    remedy: Annotated[str, Meta(description="the setting or the wait that would bring it")]
    partitions: Annotated[
        Mapping[str, Count], Meta(description="by partition, the subjects that were not decided")
    ] = {}
    contrasts: Annotated[
        Sequence[Contrast], Meta(description="what tells them from the subjects that were decided")
    ] = []
    over_time: Annotated[OverTime | None, Meta(description="when they were written")] = None
    examples: Annotated[Sequence[Example], Meta(description="the first ones")] = []
    sentences: Annotated[Sequence[str], Meta(description="a sentence for each example")] = []


CONTROL = "--control"
"""The option of `fencepost run` that makes a control run."""


class ControlRun(Struct, frozen=True):
    """The same run without faults, which `fencepost run --control` carries out first."""

    folder: Annotated[str, Meta(description="its folder")]
    valid: Annotated[bool | str, Meta(description="its verdict: true, false or `unknown`")]
    summary: Annotated[str, Meta(description="the reason for its verdict")]
    anomalies: Annotated[
        Mapping[str, Count], Meta(description="by anomaly, its findings that decide its verdict")
    ] = {}


class Recurrence(Struct, frozen=True):
    """How often an anomaly came in several runs."""

    anomaly: Annotated[str, Meta(description="its name")]
    hits: Annotated[Count, Meta(description="the runs with a finding that decides the verdict")]
    runs: Annotated[Count, Meta(description="all runs")]
    by_fault: Annotated[
        Mapping[str, tuple[Count, Count]],
        Meta(
            description="by fault: the runs with the finding in which the fault acted, and all in which it acted"
        ),
    ]


def recurrences(outcomes: Iterable[tuple[Set[str], Set[str]]]) -> list[Recurrence]:
    """Return how often each anomaly came, the most frequent first.

    Args:
        outcomes: for each run, the faults that acted and the anomalies that it found
    """
    runs = list(outcomes)
    rows = []
    for anomaly in sorted({name for _, found in runs for name in found}):
        by_fault = {
            fault: (
                sum(anomaly in found for faults, found in runs if fault in faults),
                sum(fault in faults for faults, _ in runs),
            )
            for fault in sorted({fault for faults, _ in runs for fault in faults})
        }
        rows.append(Recurrence(anomaly, sum(anomaly in found for _, found in runs), len(runs), by_fault))
    return sorted(rows, key=lambda row: (-row.hits, row.anomaly))
