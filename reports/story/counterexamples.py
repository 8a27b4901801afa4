"""What happened in an invalid run: its findings by cause, with the diagram of the smallest finding of each cause."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from harness.results.example import Example
from harness.results.verdict import AnomalyFindings
from reports.story.cause import FoundCause, find_cause
from reports.story.diagram import draw_diagram
from reports.story.model import Diagram
from reports.story.run import Story
from reports.story.subjects import Attempt, attempts_of, inputs_of, records_of

MOST_COUNTEREXAMPLES = 3
MOST_EXAMPLES = 10


@dataclass(frozen=True)
class CausedFinding:
    """A finding, with what is known about it."""

    anomaly: str
    number: int  # in its anomaly, from 1
    example: Example
    attempts: Sequence[Attempt]
    cause: FoundCause
    root: bool  # its anomaly is no consequence of another one
    rank: int  # of its anomaly, in the order of the report

    @property
    def order(self) -> tuple[int, bool, bool, int, int, int]:
        """The first finding in this order is drawn: two processes meet in it, it has records, and its parts are few."""
        processes = len({attempt.process for attempt in self.attempts})
        parts = len(self.attempts) + sum(len(a.records) + len(a.inputs) for a in self.attempts)
        without_records = not any(attempt.records for attempt in self.attempts)
        stored = sum(1 for _ in self.example.parts())
        return -min(processes, 2), without_records, not self.root, self.rank, parts, stored


@dataclass
class Counterexample:
    """The findings of one cause."""

    cause: FoundCause
    shown: CausedFinding
    diagram: Diagram
    counts: dict[str, int] = field(default_factory=dict)
    """By anomaly: how many findings have this cause, of those that have an example."""


def counterexamples(story: Story, anomalies: Iterable[tuple[str, AnomalyFindings]]) -> list[Counterexample]:
    """Return at most `MOST_COUNTEREXAMPLES` of the anomalies that decide the verdict, those with a known cause first.

    Raises `UnreadableInput` for a damaged table.
    """
    bad = [(name, findings) for name, findings in anomalies if not findings.allowed]
    examples = [example for _, findings in bad for example in findings.examples[:MOST_EXAMPLES]]
    story.load_batches(
        each for example in examples for each in [*records_of(story, example), *inputs_of(story, example)]
    )
    names = {name for name, _ in bad}
    all_findings = [
        _finding(story, name, number, example, root=findings.because not in names, rank=rank)
        for rank, (name, findings) in enumerate(bad)
        for number, example in enumerate(findings.examples[:MOST_EXAMPLES], 1)
    ]
    by_cause: dict[str, list[CausedFinding]] = {}
    for finding in all_findings:
        cause = _cause_of_its_attempts(finding, all_findings)
        key = cause.key if cause.known else f"{cause.key}: {_root(finding.anomaly, dict(bad))}"
        by_cause.setdefault(key, []).append(replace(finding, cause=cause))
    found = []
    for findings_of_cause in by_cause.values():
        shown = min(findings_of_cause, key=lambda each: each.order)
        diagram = draw_diagram(story, shown.example, shown.attempts, shown.cause)
        counts = Counter(each.anomaly for each in findings_of_cause)
        found.append(Counterexample(shown.cause, shown, diagram, dict(counts)))
    found.sort(key=lambda each: not each.cause.known)
    return found[:MOST_COUNTEREXAMPLES]


def _finding(
    story: Story, anomaly: str, number: int, example: Example, *, root: bool, rank: int
) -> CausedFinding:
    attempts = attempts_of(story, example)
    cause = find_cause(story, example, attempts)
    return CausedFinding(anomaly, number, example, attempts, cause, root, rank)


def _cause_of_its_attempts(finding: CausedFinding, others: Iterable[CausedFinding]) -> FoundCause:
    """Return the cause of a finding. If it is not known, that of another finding of the same transaction."""
    if not finding.cause.known:
        own = {(attempt.process, attempt.name, attempt.begin_ns) for attempt in finding.attempts}
        for other in others:
            same = any((attempt.process, attempt.name, attempt.begin_ns) in own for attempt in other.attempts)
            if same and other.cause.known:
                return other.cause
    return finding.cause


def _root(name: str, anomalies: Mapping[str, AnomalyFindings]) -> str:
    """Return the first cause of an anomaly among the anomalies."""
    seen = {name}
    while (cause := anomalies[name].because) in anomalies and cause is not None and cause not in seen:
        name = cause
        seen.add(name)
    return name
