"""Texts about a suite. Its page, its Markdown, its JUnit file and the console share them."""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from datetime import datetime

from harness.common.wording import number, printable
from harness.results.suite import Cell, CellState, Suite

MOST_FAULTS = 40
MARKS = {
    CellState.VALID: "✓",
    CellState.CAUGHT: "◎",
    CellState.KNOWN: "≈",
    CellState.INVALID: "✕",
    CellState.MISSED: "∅",
    CellState.UNKNOWN: "?",
    CellState.FAILED: "!",
    CellState.NOT_CHECKED: "…",
    CellState.NOT_RUN: "·",
}
"""A sign for each state, so that colour is not the only difference."""
WORST_FIRST = (
    CellState.FAILED,
    CellState.INVALID,
    CellState.MISSED,
    CellState.UNKNOWN,
    CellState.NOT_CHECKED,
)
SEED_IN_NAME = {"repeat": " #{}", "seed": " seed={}"}
"""The part of a cell's name that depends on its seed, by key of `Cell.more`."""


def clock(moment: object) -> str:
    """Return a time such as `2026-11-24 20:00 UTC`."""
    try:
        return f"{datetime.fromisoformat(str(moment)):%Y-%m-%d %H:%M} UTC"
    except ValueError:
        return printable(moment, 40)


def headline(suite: Suite) -> str:
    """Return the counts of the states that occur, such as `22 valid, 1 known, 1 invalid`."""
    counts = [f"{count} {state}" for state, count in suite.counts.items() if count]
    return ", ".join(counts) + ("; interrupted" if suite.interrupted else "")


def since(suite: Suite) -> str:
    """Return for example `3 new since 2026-11-24 20:00 UTC`. Empty: there is no previous suite."""
    if suite.previous is None:
        return ""
    new = sum(cell.new for cell in suite.cells)
    return f"{number(new) if new else 'nothing'} new since {clock(suite.previous)}"


def faults(suite: Suite) -> str:
    """Return the faults that acted, and those that never acted. Empty: no run had a fault.

    Example: `Faults that acted: kill-worker 18; never acted: partition (it did not act)`.

    The text names the faults that runs drew, that the user requested, and that had no room in the time limit.
    """
    total: Counter[str] = Counter()
    for cell in suite.cells:
        total.update(cell.faults)
    if not total:
        return ""
    acted = [f"{printable(name, 60)} {number(count)}" for name, count in total.most_common() if count]
    never: dict[str, list[str]] = {}
    for name in sorted(name for name, count in total.items() if not count):
        reasons = (cell.not_exercised[name] for cell in suite.cells if name in cell.not_exercised)
        never.setdefault(printable(next(reasons, "it did not act"), 200), []).append(printable(name, 60))
    text = f"Faults that acted: {', '.join(acted[:MOST_FAULTS]) or 'none'}"
    left = [f"{', '.join(names[:MOST_FAULTS])} ({why})" for why, names in never.items()]
    return f"{text}; never acted: {', '.join(left)}" if left else text


def worst_first(cells: Sequence[Cell]) -> list[Cell]:
    """Return the cells that need attention: new ones first, then by state."""
    bad = [cell for cell in cells if cell.state in WORST_FIRST]
    return sorted(bad, key=lambda cell: (not cell.new, WORST_FIRST.index(cell.state), cell.name))


def better(cells: Sequence[Cell]) -> list[Cell]:
    """Return the cells that are good and were bad in the previous suite."""
    return [cell for cell in cells if cell.state.good and cell.before is not None and cell.before.bad]


def flaky(cell: Cell) -> str:
    """Return how often a cell was bad, such as `2 of 30`. Empty: it never had a verdict."""
    return f"{cell.flake.bad} of {cell.flake.with_verdict}" if cell.flake.with_verdict else ""


def anomalies(cell: Cell) -> str:
    """Return the anomalies of a cell with their counts, such as `lost-input 4, G1c 2`."""
    return ", ".join(f"{printable(name, 60)} {number(count)}" for name, count in cell.anomalies.items())


def lead(cell: Cell) -> str:
    """Return the first example of a bad run's worst anomaly, or its remedy. Empty: it has neither."""
    if not cell.state.bad:
        return ""
    if cell.first:
        return f"First: {printable(cell.first, 1200)}"
    return f"What to do: {printable(cell.remedy, 1200)}" if cell.remedy else ""


def longest_gap(cell: Cell) -> str:
    """Return the longest time without a commit and its fault: `3.4 s (kill-broker)`. Empty: it is not known."""
    if not cell.gaps_s:
        return ""
    fault, gap_s = max(cell.gaps_s.items(), key=lambda gap: gap[1])
    return f"{gap_s:,.1f} s ({printable(fault, 60)})"


def report_of(cell: Cell) -> str | None:
    """Return the path of the run's report, relative to the suite's folder. None: the run has no verdict."""
    has_verdict = cell.state not in (CellState.FAILED, CellState.NOT_CHECKED, CellState.NOT_RUN)
    return f"{cell.run}/report.html" if cell.run and has_verdict else None


def log_of(cell: Cell) -> str | None:
    """Return the path of the run's log, relative to the suite's folder. None: the run did not start."""
    return f"logs/{cell.slug}.log" if cell.started is not None and cell.slug else None


@dataclass(frozen=True)
class SimilarRuns:
    """Bad runs that differ only by their seeds, and have the same state and cause."""

    cells: Sequence[Cell]
    of: int  # all started runs of the suite that differ from these only by the seed, including these

    @property
    def first(self) -> Cell:
        """The run whose example is shown."""
        return self.cells[0]

    @property
    def name(self) -> str:
        """The name of the runs, such as `shop librdkafka drawn (10 of 10 seeds)`."""
        name = self.first.name if len(self.cells) == 1 else _without_seed(self.first)
        return f"{name} ({len(self.cells)} of {self.of} seeds)" if self.of > 1 else name

    @property
    def anomalies(self) -> str:
        """The anomalies with their lowest and highest counts in one run, such as `lost-input 4 to 17, G1c 2`."""
        names = dict.fromkeys(name for cell in self.cells for name in cell.anomalies)
        return ", ".join(f"{printable(name, 60)} {self._range(name)}" for name in names)

    def _range(self, anomaly: str) -> str:
        counts = [cell.anomalies.get(anomaly, 0) for cell in self.cells]
        low, high = min(counts), max(counts)
        return number(low) if low == high else f"{number(low)} to {number(high)}"

    @property
    def state(self) -> str:
        """The state, such as `invalid`, `invalid (new)` or `invalid (3 new)`."""
        new = sum(cell.new for cell in self.cells)
        which = f" ({'new' if new == len(self.cells) else f'{new} new'})" if new else ""
        return f"{self.first.state}{which}"


def group_similar(suite: Suite, cells: Sequence[Cell]) -> list[SimilarRuns]:
    """Group bad cells, in the order of the first cell of each group."""
    ran = Counter(_without_seed(cell) for cell in suite.cells if cell.state is not CellState.NOT_RUN)
    groups: dict[Hashable, list[Cell]] = {}
    for cell in cells:
        groups.setdefault((_without_seed(cell), cell.state, _cause(cell)), []).append(cell)
    return [SimilarRuns(group, ran[_without_seed(group[0])]) for group in groups.values()]


def _without_seed(cell: Cell) -> str:
    name = cell.name
    for key, words in SEED_IN_NAME.items():
        if key in cell.more:
            name = "".join(name.rsplit(words.format(cell.more[key]), 1))
    return name


def _cause(cell: Cell) -> Hashable:
    if cell.state is CellState.INVALID and cell.anomalies:
        return tuple(sorted(cell.anomalies))
    if cell.state is CellState.UNKNOWN and cell.codes:
        return tuple(cell.codes)
    return cell.reason.replace(cell.slug, "") if cell.slug else cell.reason
