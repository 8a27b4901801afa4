"""Show a suite as one HTML file: a grid of cells, and all runs with links to their reports.

The template escapes all text from a suite file or a run. Style and script are inline, and the content security
policy permits exactly these two, by their hashes. The page can be read without scripts.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from markupsafe import Markup

from harness.common import wording as words
from harness.results.suite import Cell, CellState, Suite
from harness.results.verdict import Validity
from reports.conclusions import describe_recurrence
from reports.html.template import policy, template
from reports.suites.wording import (
    MARKS,
    anomalies,
    better,
    clock,
    faults,
    flaky,
    headline,
    lead,
    log_of,
    longest_gap,
    report_of,
    since,
    worst_first,
)

_HERE = Path(__file__).parent
GOOD, BAD, OPEN = (validity.name.lower() for validity in (Validity.VALID, Validity.INVALID, Validity.UNKNOWN))


@dataclass(frozen=True)
class SuiteCell:
    """A cell, prepared for the template."""

    ident: str
    cell: Cell
    mark: str
    word: str  # its state, or "running"
    style: str  # the state as a class of the style sheet
    label: str  # how it differs from the other cells at the same position of the grid
    anomalies: str
    lead: str  # the first thing to look at in a bad run
    report: str | None
    log: str | None
    flaky: str
    took: str
    longest_gap: str


@dataclass(frozen=True)
class SuiteRow:
    """A row of the grid: a workload on a client."""

    workload: str
    client: str
    places: Sequence[Sequence[SuiteCell]]  # by column


def draw(suite: Suite) -> str:
    """Return the page `index.html`."""
    style = "".join((_HERE / name).read_text(encoding="utf-8") for name in ("report.css", "suite.css"))
    script = "".join((_HERE / name).read_text(encoding="utf-8") for name in ("report.js", "suite.js"))
    filters = {
        "show": words.printable,
        "clock": clock,
        "length": _length,
        "recurrence": describe_recurrence,
    }
    shown = {cell.name: _shown(n, cell, suite) for n, cell in enumerate(suite.cells, 1)}
    columns = _columns(suite)
    bad = worst_first(suite.cells)
    return template("suite.html", filters).render(
        suite=suite,
        colour=_colour(suite),
        title=_title(suite),
        headline=headline(suite),
        since=since(suite),
        faults=faults(suite),
        policy=policy([style], [script]),
        style=Markup(style),
        script=Markup(script),
        columns=list(dict.fromkeys(columns.values())),
        rows=list(_rows(suite, columns, shown)),
        every=[shown[cell.name] for cell in _in_order(suite.cells)],
        new=[shown[cell.name] for cell in bad if cell.new],
        better=[shown[cell.name] for cell in better(suite.cells)],
        states=[(state, MARKS[state], _style(state), n) for state, n in suite.counts.items() if n],
        slowest=_slowest(suite, shown),
        runs_s=sum(cell.duration_s or 0.0 for cell in suite.cells),
        left=sum(cell.state in (CellState.NOT_RUN, CellState.NOT_CHECKED) for cell in suite.cells),
    )


def _colour(suite: Suite) -> str:
    """Return the colour of the header: that of the worst cell."""
    states = {cell.state for cell in suite.cells}
    if states & {CellState.INVALID, CellState.MISSED, CellState.FAILED}:
        return BAD
    if (
        states & {CellState.UNKNOWN, CellState.NOT_CHECKED}
        or suite.interrupted
        or states <= {CellState.NOT_RUN}
    ):
        return OPEN
    return GOOD


def _title(suite: Suite) -> str:
    bad = sum(cell.state.bad for cell in suite.cells)
    if bad:
        mark = MARKS[CellState.UNKNOWN if _colour(suite) == OPEN else CellState.INVALID]
        return f"{mark} {bad} of {words.plural(len(suite.cells), 'run')} {'needs' if bad == 1 else 'need'} a look"
    if _colour(suite) == OPEN:
        return "? Not all runs have a verdict"
    return "✓ No run needs a look"


def _style(state: CellState) -> str:
    return state.replace(" ", "-")


def _columns(suite: Suite) -> dict[str, tuple[str, str]]:
    """Return the column of each cell: its faults, and the version of Kafka if the suite has several."""
    plural = len({cell.kafka for cell in suite.cells}) > 1
    return {cell.name: (cell.nemesis, cell.kafka if plural else "") for cell in suite.cells}


def _rows(
    suite: Suite, columns: Mapping[str, tuple[str, str]], shown: Mapping[str, SuiteCell]
) -> Iterator[SuiteRow]:
    places: dict[tuple[str, str], dict[tuple[str, str], list[SuiteCell]]] = {}
    for cell in suite.cells:
        row = places.setdefault((cell.workload, cell.client), {})
        row.setdefault(columns[cell.name], []).append(shown[cell.name])
    all_columns = list(dict.fromkeys(columns.values()))
    for (workload, client), by_column in places.items():
        yield SuiteRow(workload, client, [by_column.get(column, []) for column in all_columns])


def _in_order(cells: Sequence[Cell]) -> list[Cell]:
    """Return the cells that need a look first, then the others in the order of the suite file."""
    first = worst_first(cells)
    names = {cell.name for cell in first}
    return [*first, *(cell for cell in cells if cell.name not in names)]


def _shown(n: int, cell: Cell, suite: Suite) -> SuiteCell:
    more = {key: value for key, value in cell.more.items() if key not in ("kafka", "repeat")}
    parts = [f"{key} {value}" for key, value in more.items()]
    parts += [f"#{cell.more['repeat']}"] if "repeat" in cell.more else []
    report, log = report_of(cell), log_of(cell)
    ran = cell.started is not None
    runs = ran and cell.state is CellState.NOT_RUN and suite.ended is None
    return SuiteCell(
        ident=f"cell-{n}",
        cell=cell,
        mark=MARKS[cell.state],
        word="running" if runs else str(cell.state),
        style=_style(cell.state),
        label=", ".join(parts),
        anomalies=anomalies(cell),
        lead=lead(cell),
        report=quote(report) if report else None,
        log=quote(log) if log else None,
        flaky=flaky(cell),
        took=_length(cell.duration_s),
        longest_gap=longest_gap(cell),
    )


def _slowest(suite: Suite, shown: dict[str, SuiteCell]) -> list[tuple[SuiteCell, float]]:
    """Return the ten longest runs. Each has its duration in per cent of the longest one."""
    timed = sorted(
        (cell for cell in suite.cells if cell.duration_s), key=lambda cell: -(cell.duration_s or 0.0)
    )[:10]
    longest_s = timed[0].duration_s if timed else None
    return [(shown[cell.name], round(100 * (cell.duration_s or 0.0) / (longest_s or 1.0))) for cell in timed]


def _length(seconds: float | None) -> str:
    if seconds is None:
        return ""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min"
