"""What happened in an invalid run: its findings by cause, with the diagram of the smallest finding of each cause."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from harness.record.protocol_journal import ProtocolJournal
from harness.record.table_reader import RunTables
from harness.record.timeline.model import Timeline
from harness.results.example import Example
from harness.results.verdict import AnomalyFindings, FaultReport
from reports.counterexample.attempts import Attempt, attempts_of
from reports.counterexample.cause import FoundCause, find_cause
from reports.counterexample.diagram import Diagram, draw_diagram
from reports.counterexample.finding_rows import FindingEvidence

MOST_STORIES = 3
MOST_EXAMPLES = 10


@dataclass(frozen=True)
class StoryFinding:
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
class Story:
    """The findings of one cause."""

    cause: FoundCause
    shown: StoryFinding
    diagram: Diagram
    counts: dict[str, int] = field(default_factory=dict)
    """By anomaly: how many findings have this cause, of those that have an example."""


def tell(
    t: RunTables,
    timeline: Timeline,
    anomalies: Iterable[tuple[str, AnomalyFindings]],
    faults: Sequence[FaultReport],
    protocol: ProtocolJournal,
) -> list[Story]:
    """Return at most `MOST_STORIES` of the anomalies that decide the verdict, those with a known cause first.

    Raises `UnreadableInput` for a damaged table.
    """
    bad = [(name, findings) for name, findings in anomalies if not findings.allowed]
    examples = [example for _, findings in bad for example in findings.examples[:MOST_EXAMPLES]]
    evidence = FindingEvidence(t, timeline, examples, faults, protocol)
    names = {name for name, _ in bad}
    all_findings = [
        _finding(evidence, name, number, example, root=findings.because not in names, rank=rank)
        for rank, (name, findings) in enumerate(bad)
        for number, example in enumerate(findings.examples[:MOST_EXAMPLES], 1)
    ]
    by_cause: dict[str, list[StoryFinding]] = {}
    for finding in all_findings:
        cause = _cause_of_its_attempts(finding, all_findings)
        key = cause.key if cause.known else f"{cause.key}: {_root(finding.anomaly, dict(bad))}"
        by_cause.setdefault(key, []).append(replace(finding, cause=cause))
    stories = []
    for findings_of_cause in by_cause.values():
        shown = min(findings_of_cause, key=lambda each: each.order)
        diagram = draw_diagram(evidence, shown.example, shown.attempts, shown.cause)
        story = Story(shown.cause, shown, diagram)
        for each in findings_of_cause:
            story.counts[each.anomaly] = story.counts.get(each.anomaly, 0) + 1
        stories.append(story)
    stories.sort(key=lambda story: not story.cause.known)
    return stories[:MOST_STORIES]


def _finding(
    evidence: FindingEvidence, anomaly: str, number: int, example: Example, *, root: bool, rank: int
) -> StoryFinding:
    attempts = attempts_of(evidence, example)
    cause = find_cause(evidence, example, attempts)
    return StoryFinding(anomaly, number, example, attempts, cause, root, rank)


def _cause_of_its_attempts(finding: StoryFinding, others: Iterable[StoryFinding]) -> FoundCause:
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
