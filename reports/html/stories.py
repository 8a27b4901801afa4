"""The counter-examples, prepared for the report's template."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from markupsafe import Markup

from harness.common.errors import UnreadableInput
from harness.common.wording import join_words, number, printable
from harness.model.vocabulary import worker_of
from harness.results.verdict import AnomalyFindings
from reports.conclusions import conclusion
from reports.findings_text import example_sentences
from reports.html.findings import ident_of
from reports.html.template import WIDTHS
from reports.pictures.sequence import legend, sequence
from reports.story.counterexamples import MOST_EXAMPLES, CausedFinding, Counterexample, counterexamples
from reports.story.logs import program_lines
from reports.story.model import EVERYBODY, Message
from reports.story.run import Story
from reports.story.subjects import Interval

MOST_LINES = 12
"""A story shows at most this many lines of the programs' logs."""
AFTER_S = 1.0
"""A program may log this long after its transaction has ended what came of it."""


@dataclass(frozen=True)
class ListedMessage:
    """A message of the diagram, as a line of text."""

    at: str  # empty: the time is not known
    words: str


@dataclass(frozen=True)
class ReportStory:
    """The findings of one cause, prepared for the template."""

    sentence: str
    cause: Sequence[str]
    summary: str  # what came before the findings, if their cause is known
    counted: str
    ident: str  # the anchor of the finding that is drawn
    drawing: Markup | None
    legend: str  # what the colours of the drawing mean
    messages: Sequence[ListedMessage]
    left_out: int
    interval: Interval | None = None  # of all that is drawn, in seconds
    log: Sequence[ListedMessage] = ()
    """Lines in the logs of the finding's programs while its transactions were under way."""


def report_stories(
    run_story: Story, ordered: Sequence[tuple[str, AnomalyFindings]]
) -> tuple[list[ReportStory], list[str]]:
    """Return the stories of an invalid run, and notes about what cannot be read."""
    try:
        found = counterexamples(run_story, ordered)
    except (UnreadableInput, pa.ArrowException) as error:
        return [], [printable(f"what happened cannot be told: {error}", 300)]
    return [_report_story(run_story, n, each, dict(ordered)) for n, each in enumerate(found, 1)], []


def _report_story(
    run_story: Story, n: int, story: Counterexample, anomalies: Mapping[str, AnomalyFindings]
) -> ReportStory:
    shown, interval_ns = story.shown, story.diagram.interval_ns
    own = conclusion(shown.anomaly, anomalies)
    concluded = [f"{each}." for each in own.contrasts[:1]]
    return ReportStory(
        example_sentences(shown.anomaly, anomalies[shown.anomaly])[shown.number - 1],
        story.cause.sentences if story.cause.known or not concluded else concluded,
        printable(story.cause.summary, 200),
        _counted(story, anomalies),
        f"{ident_of(shown.anomaly)}-{shown.number}",
        sequence(f"story-{n}", WIDTHS[0], story.diagram),
        legend(story.diagram),
        list(_listed(story.diagram.messages)),
        story.diagram.left_out,
        None if interval_ns is None else (interval_ns[0] / 1e9, interval_ns[1] / 1e9),
        list(_logged(run_story, shown)),
    )


def _logged(story: Story, shown: CausedFinding) -> Iterator[ListedMessage]:
    times_ns = [at for each in shown.attempts for at in (each.begin_ns, each.end_ns) if at is not None]
    files = [
        path.name
        for path in sorted((story.tables.folder / "workers").glob("*.log"))
        if any(each.process in (path.stem, worker_of(path.stem)) for each in shown.attempts)
    ]
    if times_ns and files:
        lines = program_lines(story.tables, files, (min(times_ns) / 1e9, max(times_ns) / 1e9 + AFTER_S))
        for first_s, last_s, text in lines[:MOST_LINES]:
            at = f"{first_s:,.3f} s" if first_s == last_s else f"{first_s:,.1f} to {last_s:,.1f} s"
            yield ListedMessage(at, text)
        if len(lines) > MOST_LINES:
            yield ListedMessage("", f"{number(len(lines) - MOST_LINES)} more lines")


def _counted(story: Counterexample, anomalies: Mapping[str, AnomalyFindings]) -> str:
    """Return which findings have the cause."""
    parts = []
    for name, count in story.counts.items():
        findings = anomalies[name]
        shown = min(len(findings.examples), MOST_EXAMPLES)
        label = printable(name, 60)
        if count == findings.count:
            parts.append(f"{number(count)} {label}")
        elif count == shown:
            parts.append(f"all {number(shown)} {label} that are shown (of {number(findings.count)})")
        else:
            parts.append(f"{number(count)} of the {number(shown)} {label} that are shown")
    which = "with this cause" if story.cause.known else "told here together"
    return f"Findings {which}: {join_words(parts, 8)}."


def _listed(messages: Sequence[Message]) -> Iterator[ListedMessage]:
    for message in messages:
        at = "" if message.at_ns is None else f"{message.at_ns / 1e9:,.3f} s"
        words = message.text if message.sender == EVERYBODY else str(message)
        yield ListedMessage(at, words)
