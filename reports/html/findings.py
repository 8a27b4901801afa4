"""The anomalies and their examples, prepared for the report's template."""

import hashlib
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from harness.common import wording as words
from harness.common.wording import redact_text
from harness.record.protocol_journal import JournaledRequest, ProtocolJournal
from harness.results.example import Example
from harness.results.verdict import AnomalyFindings, FaultReport
from reports.findings_text import describe_count, describe_meaning, describe_permitted, example_sentences
from reports.html.template import WIDTHS, Drawings
from reports.pictures import static
from reports.story.points import request_span
from reports.story.scopes import trace_commands
from reports.story.subjects import Interval

MOST_EXAMPLES = 10
MOST_CHANGED = 5
"""An example shows at most this many requests that rules changed."""


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
    span: Interval | None
    """When it happened, in seconds since the start of the run. None: not known."""
    changed: Sequence[str]
    """The requests of its transactional ids that a rule changed while its operations were under way."""


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
    ordered: Sequence[tuple[str, AnomalyFindings]],
    faults: Sequence[FaultReport],
    protocol: ProtocolJournal,
    folder: Path | None,
    spans: Sequence[Interval | None],
) -> list[ReportAnomaly]:
    """Prepare each anomaly. `folder` is the run folder with tables for trace commands; None: there are none. `spans`
    says when each example happened, in the order of `examples`.
    """
    shown = list(examples(ordered))
    traces = trace_commands(folder, shown) if folder else [""] * len(shown)
    found = zip(traces, spans, strict=True)
    return [
        _report_anomaly(
            name, findings, faults, protocol, list(islice(found, len(findings.examples[:MOST_EXAMPLES])))
        )
        for name, findings in ordered
    ]


def _report_anomaly(
    name: str,
    findings: AnomalyFindings,
    faults: Sequence[FaultReport],
    protocol: ProtocolJournal,
    found: Sequence[tuple[str, Interval | None]],
) -> ReportAnomaly:
    shown = []
    rows = zip(findings.examples, example_sentences(name, findings), found, strict=False)
    for number, (example, sentence, (trace, span)) in enumerate(rows, 1):
        ident = f"{ident_of(name)}-{number}"
        changed = _changed_requests(example, protocol)
        spans = [request_span(each) for each in changed]
        timeline = Drawings(
            *(static.operations(f"{ident}-time", example, faults, width, spans) for width in WIDTHS)
        )
        raw = redact_text(words.printable(example.as_json(), 4000))
        described = [words.printable(request.describe(), 1000) for request in changed]
        shown.append(ReportExample(ident, sentence, example, timeline, raw, trace, span, described))
    label = words.printable(name, 60)
    return ReportAnomaly(
        label,
        f"{ident_of(name)}-all",
        findings,
        describe_count(name, findings),
        describe_permitted(findings),
        describe_meaning(findings),
        shown,
    )


def _changed_requests(example: Example, protocol: ProtocolJournal) -> list[JournaledRequest]:
    """Return the changed requests of its transactional ids that were under way at the same time as its operations."""
    all_facts = [example.facts, *(part.facts for part in example.parts())]
    ids = {str(facts["transactional_id"]) for facts in all_facts if facts.get("transactional_id") is not None}
    times = [
        time_ns
        for operation in example.operations
        for name in ("call_ns", "return_ns")
        if (time_ns := words.integer(operation.get(name))) is not None
    ]
    changed = protocol.under_way(ids, min(times, default=-math.inf), max(times, default=math.inf))
    return changed[:MOST_CHANGED]


def ident_of(name: str) -> str:
    """Return an anomaly's name as part of an anchor, whatever characters it has."""
    plain = "".join(
        character if character.isascii() and character.isalnum() else "-" for character in name[:60]
    )
    return (
        plain
        if plain == name
        else f"{plain}-{hashlib.sha256(name.encode('utf-8', 'replace')).hexdigest()[:8]}"
    )
