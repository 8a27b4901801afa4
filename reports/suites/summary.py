"""A suite in Markdown, for the page that a CI shows of a job: counts, what is new, and each run that needs a look."""

from collections.abc import Iterator, Sequence

from harness.suite import Cell, State, Suite
from reports.suites.lines import faults, lead, log_of, report_of, since
from reports.suites.markdown import code, plain
from reports.suites.seeds import Alike, alike

MARKS = {
    State.VALID: "✓",
    State.CAUGHT: "◎",
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
    news = since(suite)
    yield f"## Fencepost suite {plain(suite.name)}: {f'{news}; ' if news else ''}{headline(suite)}"
    yield ""
    yield f"Suite seed {suite.seed}, {len(suite.cells)} cells, {suite.took_s / 60:.0f} min of wall clock."
    if struck := faults(suite):
        yield ""
        yield plain(f"{struck}.", 4000)
    bad = worst_first(suite.cells)
    groups = alike(suite, bad)
    new = alike(suite, [cell for cell in bad if cell.new])
    yield from _list(
        "What is new", [f"{one.name}: {one.first.state}, {_was(one)}: {one.first.reason}" for one in new]
    )
    if groups:
        yield ""
        yield "| | run | Kafka | reason | seed | bad, of the last | report | repeat |"
        yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
        yield from map(_row, groups[:MOST_ROWS])
        if len(groups) > MOST_ROWS:
            yield ""
            yield f"{sum(len(one.cells) for one in groups[MOST_ROWS:])} more are in index.html."
    cells = suite.cells
    yield from _list(
        "Known failures", [f"{one.name}: {one.known}" for one in cells if one.state is State.KNOWN]
    )
    yield from _list(
        "Better than in the suite before", [f"{one.name}: was {one.before}" for one in better(cells)]
    )
    yield from _list("To be known", suite.remarks)


def _list(heading: str, told: Sequence[str]) -> Iterator[str]:
    if told:
        yield ""
        yield f"**{heading}**"
        yield ""
        yield from (f"- {plain(line)}" for line in told[:MOST_ROWS])
        if len(told) > MOST_ROWS:
            yield f"- {len(told) - MOST_ROWS} more"


def _was(one: Alike) -> str:
    return f"was {one.first.before}" if one.first.before else "never ran before"


def _row(one: Alike) -> str:
    """The runs of a group; of several the first stands for all."""
    cell = one.first
    judged, bad = (sum(getattr(each.flake, key) for each in one.cells) for key in ("judged", "bad"))
    example = [cell.reason, lead(cell)]
    if len(one.cells) > 1:
        example = [f"Seed {cell.seed}: {words}" for words in example if words]
    why = [one.anomalies, *example]
    path = report_of(cell) or log_of(cell)
    row = [
        f"{MARKS[cell.state]} {one.state}",
        plain(one.name),
        plain(cell.kafka, 40),
        "<br>".join(plain(words, 600) for words in why if words),
        str(cell.seed),
        f"{bad} of {judged}" if judged else "",
        code(path) if path else "",
        code(cell.command),
    ]
    return f"| {' | '.join(row)} |"
