"""Choose the finding that a reproducer shows: the smallest one that decides the verdict."""

from dataclasses import dataclass

from harness.results.example import Example
from harness.results.verdict import AnomalyFindings, Verdict
from harness.results.wording import integer
from reports.findings_text import example_sentences
from reports.summary import causes_first


@dataclass(frozen=True)
class Finding:
    """One finding of a run."""

    anomaly: str
    findings: AnomalyFindings  # of the anomaly; their first examples are stored
    example: Example
    sentence: str

    @property
    def interval_ns(self) -> tuple[int, int] | None:
        """The time from the first to the last event of its operations. None: it has no operation with a time."""
        times_ns = [
            time_ns
            for operation in self.example.operations
            for key in ("call_ns", "commit_ns", "return_ns")
            if (time_ns := integer(operation.get(key))) is not None
        ]
        return (min(times_ns), max(times_ns)) if times_ns else None


def smallest_finding(verdict: Verdict) -> Finding | None:
    """Return the finding with the fewest parts of the first anomaly that decides the verdict.

    An anomaly that follows from another one is considered after it. None: no anomaly decides the verdict.
    """
    for anomaly, findings in causes_first(verdict.anomalies):
        if findings.allowed or not findings.examples:
            continue
        rows = list(zip(findings.examples, example_sentences(anomaly, findings), strict=True))
        example, sentence = min(rows, key=lambda row: sum(1 for _ in row[0].parts()))
        return Finding(anomaly, findings, example, sentence)
    return None
