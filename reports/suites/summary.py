"""A suite in Markdown, for the page that a CI shows of a job: the counts, and each run that needs a look."""

import re
from collections.abc import Iterator, Sequence

from harness.suite import Cell, State, Suite
from harness.telling.words import printable

MARKS = {
    State.VALID: "✓",
    State.CAUGHT: "✔",
    State.KNOWN: "≈",
    State.INVALID: "✕",
    State.MISSED: "∅",
    State.UNKNOWN: "?",
    State.FAILED: "!",
    State.NOT_JUDGED: "…",
    State.NOT_RUN: "·",
}
"""A sign for each state, so that no colour alone tells it."""
MOST_ROWS = 100
WORST_FIRST = (State.FAILED, State.INVALID, State.MISSED, State.UNKNOWN, State.NOT_JUDGED)


def headline(suite: Suite) -> str:
    """The counts of the states that occur: `22 valid, 1 known, 1 invalid`."""
    told = [f"{count} {state}" for state, count in suite.counts().items() if count]
    return ", ".join(told) + ("; interrupted" if suite.interrupted else "")


def worst_first(cells: Sequence[Cell]) -> list[Cell]:
    """Those that somebody has to look at: the new ones first, then by how bad they are."""
    bad = [cell for cell in cells if cell.state in WORST_FIRST]
    return sorted(bad, key=lambda cell: (not cell.new, WORST_FIRST.index(cell.state), cell.name))


def better(cells: Sequence[Cell]) -> list[Cell]:
    """Those that were bad in the suite before and are not now."""
    return [cell for cell in cells if cell.state.good and cell.before is not None and cell.before.bad]


def flaky(cell: Cell) -> str:
    """How often it was bad: `2 of 30`."""
    return f"{cell.flake.bad} of {cell.flake.judged}" if cell.flake.judged else ""


def summary(suite: Suite) -> str:
    """The document."""
    return "\n".join(_lines(suite)) + "\n"


def _lines(suite: Suite) -> Iterator[str]:
    yield f"## Fencepost suite {_cell(suite.name)}: {headline(suite)}"
    yield ""
    yield f"Suite seed {suite.seed}, {len(suite.cells)} cells, {suite.took_s / 60:.0f} min of wall clock."
    bad = worst_first(suite.cells)
    if bad:
        yield ""
        yield "| | cell | reason | seed | bad, of the last | repeat |"
        yield "| --- | --- | --- | --- | --- | --- |"
        for cell in bad[:MOST_ROWS]:
            mark = f"{MARKS[cell.state]} {cell.state}{' (new)' if cell.new else ''}"
            row = [
                mark,
                _cell(cell.name),
                _cell(cell.reason),
                str(cell.seed),
                flaky(cell),
                _code(cell.command),
            ]
            yield f"| {' | '.join(row)} |"
        if len(bad) > MOST_ROWS:
            yield ""
            yield f"{len(bad) - MOST_ROWS} more are in index.html."
    for heading, told in (
        (
            "Known failures",
            [f"{cell.name}: {cell.known}" for cell in suite.cells if cell.state is State.KNOWN],
        ),
        (
            "Better than in the suite before",
            [f"{cell.name}: was {cell.before}" for cell in better(suite.cells)],
        ),
        ("To be known", list(suite.remarks)),
    ):
        if told:
            yield ""
            yield f"**{heading}**"
            yield ""
            yield from (f"- {_cell(line)}" for line in told)


def _cell(text: str) -> str:
    """A text that may hold anything, in Markdown."""
    return re.sub(r"([\\`*_|<>\[\]#&])", r"\\\1", printable(text, 400))


def _code(text: str) -> str:
    """A command, in Markdown: within a table a stroke needs its escape even there."""
    told = printable(text, 1000).replace("|", "\\|")
    fence = "``" if "`" in told else "`"
    pad = " " if "`" in told else ""
    return f"{fence}{pad}{told}{pad}{fence}"
