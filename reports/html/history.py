"""The verdict on an external history as one self-contained HTML file.

The history names no brokers, faults or journals. So the page has only the findings, with the operations of each example
in order of time, and what was checked. It has no script.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from harness.common.wording import integer, join_words, number, plural, printable
from harness.record.history_form import KNOWN
from harness.results.example import Example, Operation, Part
from harness.results.reasons import Reason, ReasonCode
from harness.results.verdict import AnomalyFindings, Validity, Verdict
from reports.findings_text import describe_count, describe_indeterminate, describe_meaning, example_sentences
from reports.html import checked
from reports.html.findings import MOST_EXAMPLES, ident_of
from reports.html.template import WIDTHS, Drawings, policy, template
from reports.pictures.static import Bar, gantt
from reports.summary import causes_first

NAMED_BY_POSITION = ("operation", "from", "to")
"""The labels of operations that say nothing more about their part in the finding."""
_HERE = Path(__file__).parent


@dataclass(frozen=True)
class HistoryOperation:
    """An operation of an example, prepared for the template. Times are nanoseconds, as in the history."""

    name: str  # T7: it completed in line 7
    process: str
    kind: str
    outcome: str
    invoked_line: int | None
    invoked_ns: int | None
    completed_line: int | None  # None: it never completed
    completed_ns: int | None
    part: str  # its part in the finding; empty: it has no special one


@dataclass(frozen=True)
class HistoryExample:
    """An example of a finding, prepared for the template."""

    ident: str
    sentence: str
    steps: list[str]  # of a cycle
    facts: list[tuple[str, str]]
    operations: list[HistoryOperation]
    drawing: Drawings
    raw: str


@dataclass(frozen=True)
class HistoryAnomaly:
    """An anomaly, prepared for the template."""

    name: str
    ident: str
    findings: AnomalyFindings
    counted: str
    meaning: str
    shown: list[HistoryExample]


def draw(verdict: Verdict, command: str) -> str:
    """Return the page. `command` is the command that checks the history again."""
    style = (_HERE / "report.css").read_text(encoding="utf-8")
    anomalies = [_anomaly(name, findings) for name, findings in causes_first(verdict.anomalies)]
    filters = {"show": printable, "number": number, "label": _label, "time": _time}
    return template("history.html", filters).render(
        verdict=verdict,
        word={True: "valid", False: "invalid", "unknown": "unknown"}[verdict.valid],
        policy=policy([style], []),
        style=Markup(style),
        bad=[anomaly for anomaly in anomalies if not anomaly.findings.allowed],
        allowed=[anomaly for anomaly in anomalies if anomaly.findings.allowed],
        open_ends=list(_open_ends(verdict)),
        open_title="Why it is unknown" if verdict.validity is Validity.UNKNOWN else "Not certain",
        clean=checked.clean(verdict),
        only_of_runs=[
            {"why": reason.text, "names": names} for reason, names in _not_checked(verdict, of_runs=True)
        ],
        command=printable(command, 4000),
    )


def _anomaly(name: str, findings: AnomalyFindings) -> HistoryAnomaly:
    pairs = zip(findings.examples[:MOST_EXAMPLES], example_sentences(name, findings), strict=False)
    shown = [
        _example(f"{ident_of(name)}-{number}", example, sentence)
        for number, (example, sentence) in enumerate(pairs, 1)
    ]
    return HistoryAnomaly(
        printable(name, 60),
        f"{ident_of(name)}-all",
        findings,
        describe_count(name, findings),
        describe_meaning(findings),
        shown,
    )


def _example(ident: str, example: Example, sentence: str) -> HistoryExample:
    steps = example.facts.get("steps")
    operations = sorted(_operations(example), key=lambda each: (each.invoked_line or 0, each.name))
    return HistoryExample(
        ident,
        sentence,
        [printable(step, 1000) for step in steps] if isinstance(steps, list) else [],
        list(_facts(example)),
        operations,
        Drawings(*(_drawing(f"{ident}-time-{width}", width, operations) for width in WIDTHS)),
        printable(example.as_json(), 4000),
    )


def _operations(example: Example) -> Iterator[HistoryOperation]:
    """Yield the operations of an example, each once, with all that it is in the finding."""
    facts_by_line: dict[int, Mapping[str, Any]] = {}
    parts_by_line: dict[int, list[str]] = {}
    for part in example.parts():
        line = integer(part.get("op"))
        if line is None:
            continue
        facts_by_line.setdefault(line, part.facts)
        words = _part_in_finding(part)
        parts = parts_by_line.setdefault(line, [])
        if words and words not in parts:
            parts.append(words)
    for line, facts in facts_by_line.items():
        invoked = integer(facts.get("invoked"))
        yield HistoryOperation(
            f"T{line}",
            printable(facts.get("process"), 30),
            printable(facts.get("f"), 30),
            printable(facts.get("outcome"), 30),
            invoked,
            integer(facts.get("invoke_ns")),
            line if line != invoked else None,
            integer(facts.get("complete_ns")),
            ", ".join(parts_by_line[line]),
        )


def _part_in_finding(part: Part) -> str:
    """Return for example `read beyond "x" 4 @ 9`; an empty string if its label says nothing."""
    label = "" if part.label in NAMED_BY_POSITION else _label(part.label)
    return f"{label} {_record(part)}".strip()


def _record(part: Part) -> str:
    """Return for example `"x" 3 @ 12`: key, value and offset, as far as the part has them."""
    words = [
        printable(json.dumps(part.facts[name], ensure_ascii=False))
        for name in ("key", "value")
        if name in part.facts
    ]
    if part.get("offset") is not None:
        words.append(f"@ {printable(part.get('offset'), 30)}")
    return " ".join(words)


def _facts(example: Example) -> Iterator[tuple[str, str]]:
    """Yield the records of an example and its other facts, each with its label. Cycles have steps in their place."""
    for name, value in example.facts.items():
        parts = [part for part in (value if isinstance(value, list) else [value]) if isinstance(part, Part)]
        records = [_record(part) for part in parts if not isinstance(part, Operation) and "key" in part.facts]
        if records:
            yield _label(name), join_words(records, 20)
    for name, value in example.rest.items():
        if name != "steps" and "cycle" not in example.facts:
            yield _label(name), printable(value)


def _drawing(ident: str, width: int, operations: list[HistoryOperation]) -> Markup | None:
    """Draw the operations from their invocation to their completion. None: their times are not known."""
    timed = [(each, each.invoked_ns) for each in operations if each.invoked_ns is not None]
    zero_ns = min((invoked_ns for _, invoked_ns in timed), default=0)
    bars = [
        Bar(
            each.name,
            (invoked_ns - zero_ns) / 1e9,
            None if each.completed_ns is None else (each.completed_ns - zero_ns) / 1e9,
            each.outcome if each.outcome in ("ok", "fail") else "info",
            note=f"· process {each.process}, {each.kind}, {each.outcome}"
            + (f"; {each.part}" if each.part else ""),
        )
        for each, invoked_ns in timed
    ]
    return gantt(ident, width, "The operations in order of time", bars)


def _open_ends(verdict: Verdict) -> Iterator[tuple[str, Sequence[str], str, str]]:
    """Yield (kind, names, why, what to change) for all that is unknown, passed over, not checked or indeterminate."""
    for reason in verdict.unknown_because:
        yield "unknown", (), reason.text, reason.remedy
    if over := verdict.stats.get("passed_over"):
        yield "passed over", (), f"{plural(over, 'operation')}: f is none of {', '.join(KNOWN)}", ""
    for reason, names in _not_checked(verdict, of_runs=False):
        yield "not checked", names, reason.text, reason.remedy
    if verdict.unsettled.count:
        yield "indeterminate", (), describe_indeterminate(verdict.unsettled), ""


def _not_checked(verdict: Verdict, *, of_runs: bool) -> Iterator[tuple[Reason, Sequence[str]]]:
    """Yield each reason why checks were not made, and their names: of those that need a run, or of the others."""
    for reason, names in checked.without_evidence(verdict):
        if (reason.code is ReasonCode.EXTERNAL_HISTORY) is of_runs:
            yield reason, names


def _label(name: str) -> str:
    return printable(name.replace("_", " "), 60)


def _time(time_ns: int | None) -> str:
    """Return a time of the history in seconds, to the microsecond; an empty string if it is not known."""
    return "" if time_ns is None else f"{time_ns / 1e9:,.6f} s"
