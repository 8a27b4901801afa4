"""Conclude from the subjects of one run: what affected ones share and come from, and which rows were not decided."""

import math
from collections.abc import Iterator, Mapping

import numpy as np
from msgspec import structs

from checkers.checker import Checker
from checkers.contrasts.contrast import Flags, best_contrasts
from checkers.contrasts.dimensions import RunFacts, SubjectComparison, dimensions
from checkers.contrasts.origin import origin
from checkers.contrasts.subjects import RunSubjects
from checkers.findings import UNDECIDED_INFIX, Findings
from checkers.registry import checker_of
from harness.results.conclusions import Affected, NotDecided, OverTime
from harness.results.example import Example
from harness.results.reasons import Reason
from harness.results.verdict import AnomalyFindings

MOST_INTERVALS = 600
"""The affected subjects over time are counted in at most so many intervals."""
FINDINGS = "findings"
"""The noun for the rows of a check if they are too few to be compared."""


def conclude(
    anomaly: str, findings: AnomalyFindings, subjects: RunSubjects, facts: RunFacts
) -> AnomalyFindings:
    """Add to the findings of an anomaly what its subjects share, and what they come from.

    They stay as they are if there are too few, or if their subjects are of no kind that is compared.
    """
    of_kind = subjects.of(anomaly)
    if of_kind is None:
        return findings
    kind, sample = of_kind
    comparison = SubjectComparison(kind, sample.rows, subjects, facts)
    affected = affected_by(anomaly, sample.rows["anomalies"].to_pylist())
    weights = np.asarray(sample.rows["weight"], np.float64)
    compared = dimensions(comparison)
    contrasts = best_contrasts(compared, affected, weights, kind)
    about = Affected(
        noun=kind,
        affected=sample.counts[anomaly],
        subjects=sample.total,
        contrasts=contrasts,
        compared=[dimension.dimension for dimension in compared],
        over_time=over_time(comparison, affected),
    )
    found = None if findings.allowed else origin(anomaly, comparison, affected, weights, contrasts)
    return structs.replace(
        findings, affected=about, origin=found, words=_words(anomaly, about) or findings.words
    )


def _words(anomaly: str, about: Affected) -> str:
    """Return the count of the affected subjects in words, if the words for the anomaly count such subjects. A check may
    have several findings about one input. Empty: the words count something else.
    """
    wording = checker_of(anomaly).wording(anomaly)
    return wording.describe_count(about.affected) if wording.plural.startswith(f"{about.noun} ") else ""


def affected_by(anomaly: str, anomalies: list[list[str] | None]) -> Flags:
    """Return which rows have a finding of this anomaly."""
    return np.array([anomaly in (of_row or ()) for of_row in anomalies], np.bool_)


def over_time(comparison: SubjectComparison, affected: Flags) -> OverTime | None:
    """Count the affected subjects in at most `MOST_INTERVALS` intervals of whole seconds. None: no time is known."""
    known = affected & ~np.isnan(comparison.happened_s)
    if not known.any():
        return None
    times_s = comparison.happened_s[known]
    weights = np.asarray(comparison.rows["weight"], np.float64)[known]
    first_s = math.floor(float(times_s.min()))
    width_s = max(1, math.ceil((float(times_s.max()) - first_s + 1) / MOST_INTERVALS))
    counts = np.bincount(((times_s - first_s) // width_s).astype(np.int64), weights)
    return OverTime(float(first_s), width_s, [round(count) for count in counts])


def partitions_of(comparison: SubjectComparison, affected: Flags) -> Mapping[str, int]:
    """Count the affected subjects by partition, in the order of the partitions' names."""
    weights = np.asarray(comparison.rows["weight"], np.float64)
    counts: dict[str, int] = {}
    for tp in np.unique(comparison.tps[affected & ~np.isnan(comparison.tps)]):
        here = affected & (comparison.tps == tp)
        counts[comparison.facts.name(int(tp))] = round(float(weights[here].sum()))
    return dict(sorted(counts.items()))


def undecided_rows(
    checker: Checker,
    anomaly: str,
    rows: Mapping[tuple[str, bool], Findings],
    subjects: RunSubjects,
    facts: RunFacts,
) -> Iterator[NotDecided]:
    """Yield the rows of a run that a checker calls undecided, by their reasons.

    `rows`: the findings of the run, by anomaly and absence.
    """
    prefix = anomaly + UNDECIDED_INFIX
    for (name, _), found in rows.items():
        if name.startswith(prefix):
            words = checker.undecided_because[name.removeprefix(prefix)]
            yield _described(anomaly, name, found, words, subjects, facts)


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
