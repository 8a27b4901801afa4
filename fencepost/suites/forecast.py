"""How long the runs of a suite will probably take, and which of them a limit leaves time for."""

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.settings.options import Options
from harness.suite import Cell

OVERHEAD_S = 45.0
"""Of a run beside its time limit, as long as nothing was measured: a cluster comes up, drains, and is read."""
NO_TIME = "the suite's --limit left no time for it"


@dataclass(frozen=True)
class Outlook:
    """What would become of runs that have not begun."""

    begun: Sequence[Cell]
    left_out: Sequence[Cell]  # for which a limit leaves no time
    seconds: float  # until the last of them is over


class Forecast:
    """What a run takes: as in an earlier suite, or as those of this one that are over."""

    def __init__(self, options: Mapping[str, Options], overheads_s: Mapping[str, float]) -> None:
        """`options`: of each cell, by its name; `overheads_s`: what some took beside their time limit before."""
        self._options = options
        self._before_s = overheads_s
        self._measured_s: list[float] = []

    def learn(self, cell: Cell, took_s: float) -> None:
        """A run of this suite is over."""
        self._measured_s.append(took_s - self._options[cell.name].time_limit_s)

    def takes_s(self, cell: Cell) -> float:
        """How long a run will probably take."""
        measured = self._measured_s
        beside_s = sum(measured) / len(measured) if measured else OVERHEAD_S
        return self._options[cell.name].time_limit_s + self._before_s.get(cell.name, beside_s)

    def outlook(self, waiting: Sequence[Cell], jobs: int, limit_s: float | None) -> Outlook:
        """So many side by side, in this order; a run that would not be over by the limit does not begin."""
        free_s = [0.0] * jobs  # when each place is free
        begun, left_out, over_s = [], [], 0.0
        for cell in waiting:
            ends_s = free_s[0] + self.takes_s(cell)
            if limit_s is not None and ends_s > limit_s:
                left_out.append(cell)
                continue
            heapq.heapreplace(free_s, ends_s)
            begun.append(cell)
            over_s = max(over_s, ends_s)
        return Outlook(begun, left_out, over_s)
