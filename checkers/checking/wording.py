"""Put findings into words, for `verdict.json`."""

from collections.abc import Callable
from dataclasses import replace

from checkers.registry import checker_of
from harness.results.example import Example
from harness.results.verdict import AnomalyFindings


def with_wording(
    anomaly: str, findings: AnomalyFindings, line: Callable[[Example], str] | None = None
) -> AnomalyFindings:
    """Add the words, meaning and sentences that the findings do not have yet.

    Args:
        line: describes an example; None: the anomaly's own sentence
    """
    wording = checker_of(anomaly).wording(anomaly)
    return replace(
        findings,
        words=findings.words or wording.describe_count(findings.count),
        meaning=findings.meaning or wording.meaning,
        sentences=findings.sentences
        or [(line or wording.sentence)(example) for example in findings.examples],
    )
