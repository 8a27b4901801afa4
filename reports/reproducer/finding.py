"""Choose the finding that a reproducer shows: the one that the report draws."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from harness.common.errors import UnreadableInput
from harness.common.wording import integer
from harness.record.table_reader import RunTables
from harness.results.example import Example
from harness.results.verdict import AnomalyFindings, Verdict
from reports.conclusions import conclusion
from reports.findings_text import example_sentences
from reports.story.cause import FoundCause
from reports.story.counterexamples import counterexamples
from reports.story.model import Diagram
from reports.story.run import Story
from reports.story.subjects import Attempt
from reports.summary import causes_first


@dataclass(frozen=True)
class Finding:
    """One finding of a run."""

    anomaly: str
    findings: AnomalyFindings  # of the anomaly; their first examples are stored
    example: Example
    sentence: str
    cause: Sequence[str] = ()  # sentences; empty: nothing is known
    diagram: Diagram = field(default_factory=lambda: Diagram((), ()))
    attempts: Sequence[Attempt] = ()  # its transactions, as the diagram shows them

    @property
    def interval_ns(self) -> tuple[int, int] | None:
        """The time from the first to the last event of its operations and transactions. None: none has a time."""
        times_ns = [
            time_ns
            for operation in self.example.operations
            for key in ("call_ns", "commit_ns", "return_ns")
            if (time_ns := integer(operation.get(key))) is not None
        ]
        times_ns += [
            time_ns
            for attempt in self.attempts
            for time_ns in (attempt.begin_ns, attempt.decided_ns, attempt.end_ns)
            if time_ns is not None
        ]
        return (min(times_ns), max(times_ns)) if times_ns else None

    @property
    def last_ns(self) -> int | None:
        """The time of the last event in its diagram, such as the marker that decided its records."""
        times_ns = [message.at_ns for message in self.diagram.messages if message.at_ns is not None]
        return max(times_ns, default=None)

    def names(self, tables: RunTables) -> set[str]:
        """Return its transactional ids and the partitions of its records, as brokers write them in their logs."""
        ids = {attempt.transactional_id for attempt in self.attempts if attempt.transactional_id}
        written = {tp for attempt in self.attempts for tp, _ in attempt.records}
        return ids | {"-".join(map(str, tables.topic_partitions[tp])) for tp in written}


def _cause(cause: FoundCause, anomaly: str, anomalies: Mapping[str, AnomalyFindings]) -> Sequence[str]:
    """Return the cause in sentences. If it is not known: what the findings come from, and what tells them apart."""
    own = conclusion(anomaly, anomalies)
    if cause.known or not own.label:
        return cause.sentences
    return [f"{each}." for each in (f"{own.label}: {own.why}", *own.contrasts)]


def shown_finding(tables: RunTables, verdict: Verdict) -> Finding | None:
    """Return the finding that the report draws: the smallest one of the first cause.

    Without tables it is the first example of the first anomaly. None: no anomaly decides the verdict.
    """
    ordered = causes_first(verdict.anomalies)
    try:
        faults = verdict.faults or tables.metadata.faults
        found = counterexamples(Story(tables, faults), ordered)
    except (UnreadableInput, pa.ArrowException):
        found = []
    if found:
        shown = found[0].shown
        findings = verdict.anomalies[shown.anomaly]
        sentence = example_sentences(shown.anomaly, findings)[shown.number - 1]
        return Finding(
            *(shown.anomaly, findings, shown.example, sentence),
            *(_cause(found[0].cause, shown.anomaly, verdict.anomalies), found[0].diagram, shown.attempts),
        )
    for anomaly, findings in ordered:
        if not findings.allowed and findings.examples:
            return Finding(anomaly, findings, findings.examples[0], example_sentences(anomaly, findings)[0])
    return None
