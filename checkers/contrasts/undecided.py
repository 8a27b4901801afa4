"""Describe the rows that checks could not decide: how many, where and when, why, and what would decide them."""

from collections.abc import Iterator, Mapping

import numpy as np

from checkers.checker import Checker
from checkers.contrasts.conclude import affected_by, over_time, partitions_of
from checkers.contrasts.contrast import best_contrasts
from checkers.contrasts.dimensions import RunFacts, SubjectComparison, dimensions
from checkers.contrasts.subjects import RunSubjects
from checkers.findings import UNDECIDED_INFIX, Findings
from harness.results.conclusions import NotDecided
from harness.results.example import Example
from harness.results.reasons import Reason

FINDINGS = "findings"
"""What subjects are called that are too few to be compared."""


def undecided_rows(
    run: int,
    checker: Checker,
    anomaly: str,
    rows: Mapping[tuple[int, str, bool], Findings],
    subjects: RunSubjects,
    facts: RunFacts,
) -> Iterator[NotDecided]:
    """Yield the rows of a run that a checker calls undecided, by their reasons."""
    for key, (why, remedy) in checker.undecided_because.items():
        name = f"{anomaly}{UNDECIDED_INFIX}{key}"
        if found := rows.get((run, name, True)):
            yield _described(anomaly, name, found, (why, remedy), subjects, facts)


def without_evidence(
    anomaly: str, absent: Findings, gap: Reason, subjects: RunSubjects, facts: RunFacts
) -> NotDecided:
    """Describe the findings of an anomaly that do not count, because a gap in the evidence may explain them."""
    why = f"something is missing for them in the evidence, and the evidence is not complete: {gap.text}"
    return _described(anomaly, anomaly, absent, (why, gap.remedy), subjects, facts)


def _described(
    anomaly: str, name: str, found: Findings, words: tuple[str, str], subjects: RunSubjects, facts: RunFacts
) -> NotDecided:
    why, remedy = words
    sentences = [_sentence(example) for example in found.examples]
    of_kind = subjects.of(name)
    if of_kind is None:
        return NotDecided(
            anomaly,
            found.count,
            found.count,
            FINDINGS,
            why,
            remedy,
            examples=found.examples,
            sentences=sentences,
        )
    kind, sample = of_kind
    comparison = SubjectComparison(kind, sample.rows, subjects, facts)
    undecided = affected_by(name, sample.rows["anomalies"].to_pylist())
    weights = np.asarray(sample.rows["weight"], np.float64)
    return NotDecided(
        anomaly,
        sample.counts[name],
        sample.total,
        kind,
        why,
        remedy,
        partitions_of(comparison, undecided),
        best_contrasts(dimensions(comparison), undecided, weights, kind, "undecided"),
        over_time(comparison, undecided),
        found.examples,
        sentences,
    )


def _sentence(example: Example) -> str:
    """Return for example `purchases/2 offset 151 has no output in invoices`."""
    if not example.inputs:
        return "; ".join(part.words for part in example.parts()) or "no position is stored"
    topic = example.rest.get("output_topic")
    return f"{example.inputs[0].words} has no output" + (f" in {topic}" if topic is not None else "")
