"""Conclude from the subjects of one run what its affected ones share, when they were, and what they come from."""

import math
from collections.abc import Mapping

import numpy as np
from msgspec import structs

from checkers.contrasts.contrast import Flags, best_contrasts
from checkers.contrasts.dimensions import RunFacts, SubjectComparison, dimensions
from checkers.contrasts.origin import origin
from checkers.contrasts.subjects import RunSubjects
from checkers.registry import checker_of
from harness.results.conclusions import Affected, OverTime
from harness.results.verdict import AnomalyFindings

MOST_INTERVALS = 600
"""The affected subjects over time are counted in at most so many intervals."""


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
