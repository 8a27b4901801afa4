"""Runs that differ by their seed alone, and are bad for the same cause, as one."""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from harness.suite import Cell, State, Suite
from harness.telling.words import number, printable

SEEDS = {"repeat": " #{}", "seed": " seed={}"}
"""What of a run's name says its seed, by the key in `more`."""


@dataclass(frozen=True)
class Alike:
    """Bad runs with one cause. They have one state."""

    cells: Sequence[Cell]
    of: int  # how many runs differ from these by their seed alone, these included; not those that did not run

    @property
    def first(self) -> Cell:
        """The one that stands for all."""
        return self.cells[0]

    @property
    def name(self) -> str:
        """`shop librdkafka drawn (10 of 10 seeds)`."""
        name = self.first.name if len(self.cells) == 1 else without_seed(self.first)
        return f"{name} ({len(self.cells)} of {self.of} seeds)" if self.of > 1 else name

    @property
    def anomalies(self) -> str:
        """`lost-input 4 to 17, G1c 2`: the fewest and the most of each in one run."""
        names = dict.fromkeys(name for cell in self.cells for name in cell.anomalies)
        return ", ".join(f"{printable(name, 60)} {self._range(name)}" for name in names)

    def _range(self, anomaly: str) -> str:
        counts = [cell.anomalies.get(anomaly, 0) for cell in self.cells]
        few, many = min(counts), max(counts)
        return number(few) if few == many else f"{number(few)} to {number(many)}"

    @property
    def state(self) -> str:
        """`invalid`, `invalid (new)`, `invalid (3 new)`."""
        new = sum(cell.new for cell in self.cells)
        which = f" ({'new' if new == len(self.cells) else f'{new} new'})" if new else ""
        return f"{self.first.state}{which}"


def without_seed(cell: Cell) -> str:
    """The name of a cell without what says its seed."""
    name = cell.name
    for key, words in SEEDS.items():
        if key in cell.more:
            name = "".join(name.rsplit(words.format(cell.more[key]), 1))
    return name


def alike(suite: Suite, cells: Sequence[Cell]) -> list[Alike]:
    """The cells, in groups, in the order of the first of each."""
    ran = Counter(without_seed(cell) for cell in suite.cells if cell.state is not State.NOT_RUN)
    groups: dict[Hashable, list[Cell]] = {}
    for cell in cells:
        groups.setdefault((without_seed(cell), cell.state, _cause(cell)), []).append(cell)
    return [Alike(group, ran[without_seed(group[0])]) for group in groups.values()]


def _cause(cell: Cell) -> Hashable:
    """Why it is bad: its anomalies; of one that is unknown, the codes of its reasons; else its reason."""
    if cell.state is State.INVALID and cell.anomalies:
        return tuple(sorted(cell.anomalies))
    if cell.state is State.UNKNOWN and cell.codes:
        return tuple(cell.codes)
    return cell.reason.replace(cell.slug, "") if cell.slug else cell.reason
