"""The anomalies and their examples, prepared for the report's template."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from harness.results import wording as words
from harness.results.example import Example
from harness.results.verdict import AnomalyFindings, FaultReport
from reports.charts import gantt
from reports.findings_text import describe_count, describe_meaning, describe_permitted, example_sentences
from reports.html.template import WIDTHS, Drawings
from reports.trace.commands import trace_commands

MOST_EXAMPLES = 10


@dataclass(frozen=True)
class ReportExample:
    """An example of a finding, prepared for the template."""

    ident: str
    sentence: str
    example: Example
    timeline: Drawings
    raw: str
    trace: str
    """The `fencepost trace` command for the example. Empty: there is none."""


@dataclass(frozen=True)
class ReportAnomaly:
    """An anomaly, prepared for the template."""

    name: str
    ident: str
    findings: AnomalyFindings
    counted: str
    permitted: str
    meaning: str
    shown: Sequence[ReportExample]


def examples(ordered: Iterable[tuple[str, AnomalyFindings]]) -> Iterator[Example]:
    """Yield the examples that the report shows, in order."""
    for _, findings in ordered:
        yield from findings.examples[:MOST_EXAMPLES]


def report_anomalies(
    ordered: Sequence[tuple[str, AnomalyFindings]], faults: Sequence[FaultReport], folder: Path | None
) -> list[ReportAnomaly]:
    """Prepare each anomaly. `folder` is the run folder with tables for trace commands; None: there are none."""
    shown = list(examples(ordered))
    traces = iter(trace_commands(folder, shown) if folder else [""] * len(shown))
    return [
        _report_anomaly(name, findings, faults, list(islice(traces, len(findings.examples[:MOST_EXAMPLES]))))
        for name, findings in ordered
    ]


def _report_anomaly(
    name: str, findings: AnomalyFindings, faults: Sequence[FaultReport], traces: Sequence[str]
) -> ReportAnomaly:
    shown = []
    rows = zip(findings.examples, example_sentences(name, findings), traces, strict=False)
    for number, (example, sentence, trace) in enumerate(rows, 1):
        ident = f"{_ident(name)}-{number}"
        timeline = Drawings(*(gantt.operations(f"{ident}-time", example, faults, width) for width in WIDTHS))
        raw = words.printable(example.as_json(), 4000)
        shown.append(ReportExample(ident, sentence, example, timeline, raw, trace))
    label = words.printable(name, 60)
    return ReportAnomaly(
        label,
        f"{_ident(name)}-all",
        findings,
        describe_count(name, findings),
        describe_permitted(findings),
        describe_meaning(findings),
        shown,
    )


def _ident(name: str) -> str:
    """Return an anomaly's name as part of an anchor, whatever characters it has."""
    plain = "".join(
        character if character.isascii() and character.isalnum() else "-" for character in name[:60]
    )
    return (
        plain
        if plain == name
        else f"{plain}-{hashlib.sha256(name.encode('utf-8', 'replace')).hexdigest()[:8]}"
    )
