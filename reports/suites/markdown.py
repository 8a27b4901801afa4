"""A suite in Markdown: `summary.md` for the page that a CI shows of a job, `news.md` for an issue or a mail.

Texts of a run may hold anything, so `plain` and `code` escape them.
"""

import re
from collections.abc import Iterator, Sequence

from harness.common.wording import plural, printable
from harness.results.suite import CellState, Suite
from reports.suites.wording import (
    MARKS,
    SimilarRuns,
    better,
    faults,
    group_similar,
    headline,
    lead,
    log_of,
    report_of,
    since,
    worst_first,
)

MOST_ROWS = 100
MOST_CHANGES = 20


def plain(text: str, limit: int = 400) -> str:
    """Escape a text so that it contains no markup and mentions no user."""
    escaped = re.sub(r"([\\`*_|<>\[\]#&])", r"\\\1", printable(text, limit))
    return re.sub(r"(?<!\w)@", "@\u200b", escaped)


def code(text: str) -> str:
    """Return a text as code. A vertical bar is escaped even in code, because it would end a table cell."""
    escaped = printable(text, 1000).replace("|", "\\|")
    longest = max((len(run) for run in re.findall("`+", escaped)), default=0)
    fence, pad = "`" * (longest + 1), " " if longest else ""
    return f"{fence}{pad}{escaped}{pad}{fence}"


def summary(suite: Suite) -> str:
    """Return `summary.md`: the counts, the new failures, and a row for each run that needs attention."""
    return "\n".join(_summary(suite)) + "\n"


def _summary(suite: Suite) -> Iterator[str]:
    new_since = since(suite)
    yield f"## Fencepost suite {plain(suite.name)}: {f'{new_since}; ' if new_since else ''}{headline(suite)}"
    yield ""
    yield f"Suite seed {suite.seed}, {len(suite.cells)} cells, {suite.took_s / 60:.0f} min of wall clock."
    if fault_text := faults(suite):
        yield ""
        yield plain(f"{fault_text}.", 4000)
    bad, cells = worst_first(suite.cells), suite.cells
    groups = group_similar(suite, bad)
    new = group_similar(suite, [cell for cell in bad if cell.new])
    yield from _list(
        "What is new",
        [f"{group.name}: {group.first.state}, {_before(group)}: {group.first.reason}" for group in new],
    )
    if groups:
        yield ""
        yield "| | run | Kafka | reason | seed | bad, of the last | report | repeat |"
        yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
        yield from map(_row, groups[:MOST_ROWS])
        if len(groups) > MOST_ROWS:
            yield ""
            yield f"{sum(len(group.cells) for group in groups[MOST_ROWS:])} more are in index.html."
    known_failures = [f"{cell.name}: {cell.known}" for cell in cells if cell.state is CellState.KNOWN]
    yield from _list("Known failures", known_failures)
    improved = [f"{cell.name}: was {cell.before}" for cell in better(cells)]
    yield from _list("Better than in the suite before", improved)
    yield from _list("Remarks", suite.remarks)


def _list(heading: str, lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield ""
        yield f"**{heading}**"
        yield ""
        yield from (f"- {plain(line)}" for line in lines[:MOST_ROWS])
        if len(lines) > MOST_ROWS:
            yield f"- {len(lines) - MOST_ROWS} more"


def _before(group: SimilarRuns) -> str:
    return f"was {group.first.before}" if group.first.before else "never ran before"


def _row(group: SimilarRuns) -> str:
    cell = group.first
    with_verdict, bad = (
        sum(getattr(run.flake, key) for run in group.cells) for key in ("with_verdict", "bad")
    )
    example = [words for words in (cell.reason, lead(cell)) if words]
    if len(group.cells) > 1:
        example = [f"Seed {cell.seed}: {words}" for words in example]
    path = report_of(cell) or log_of(cell)
    row = [
        f"{MARKS[cell.state]} {group.state}",
        plain(group.name),
        plain(cell.kafka, 40),
        "<br>".join(plain(words, 600) for words in (group.anomalies, *example) if words),
        str(cell.seed),
        f"{bad} of {with_verdict}" if with_verdict else "",
        code(path) if path else "",
        code(cell.command),
    ]
    return f"| {' | '.join(row)} |"


def changes(suite: Suite) -> str:
    """Return `news.md`: the runs that are bad and were not bad before, and why runs have no verdict. Empty: none."""
    new = [cell for cell in suite.cells if cell.new]
    parts = [f"{line}\n" for line in _without_verdict(suite)]
    if new:
        parts.append(f"Bad, but not in the suite before: {plural(len(new), 'run')}.\n")
    groups = group_similar(suite, new)
    for group in groups[:MOST_CHANGES]:
        cell = group.first
        seed = f" (seed {cell.seed})" if len(group.cells) > 1 else ""
        lines = [f"{cell.state}: {plain(cell.reason, 600)}{seed}", plain(lead(cell), 600), code(cell.command)]
        parts.append(f"### {plain(group.name, 200)}\n\n" + "\n\n".join(filter(None, lines)) + "\n")
    if more := sum(len(group.cells) for group in groups[MOST_CHANGES:]):
        parts.append(f"{plural(more, 'more run')} {'is' if more == 1 else 'are'} in index.html.\n")
    return "\n".join(parts)


def _without_verdict(suite: Suite) -> Iterator[str]:
    if suite.interrupted:
        yield "The suite was interrupted."
    if unchecked := sum(cell.state is CellState.NOT_CHECKED for cell in suite.cells):
        yield f"{plural(unchecked, 'run')} ended but could not be checked."
    if all(cell.state is CellState.NOT_RUN for cell in suite.cells):
        yield "No run was started."
