"""How long the runs of a suite will probably take, and which of them a limit leaves time for."""

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.settings.options import Options
from harness.suite import Cell, State

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

    def __init__(
        self, options: Mapping[str, Options], overheads_s: Mapping[str, float], cells: Sequence[Cell] = ()
    ) -> None:
        """`options`: of each cell, by its name; `overheads_s`: what some took beside their time limit before;
        `cells`: of the suite, of which some may be over.
        """
        self._options = options
        self._before_s = overheads_s
        self._measured_s: list[float] = []
        for cell in cells:
            if cell.duration_s is not None:
                self.learn(cell, cell.duration_s)

    def learn(self, cell: Cell, took_s: float) -> None:
        """A run of this suite is over. One that failed may have ended at once, or never: it says nothing."""
        if cell.state in (State.FAILED, State.NOT_RUN):
            return
        self._measured_s.append(took_s - self._options[cell.name].time_limit_s)

    def takes_s(self, cell: Cell) -> float:
        """How long a run will probably take."""
        measured = self._measured_s
        beside_s = sum(measured) / len(measured) if measured else OVERHEAD_S
        return self._options[cell.name].time_limit_s + self._before_s.get(cell.name, beside_s)

    def outlook(
        self, waiting: Sequence[Cell], jobs: int, limit_s: float | None, going_s: Sequence[float] = ()
    ) -> Outlook:
        """So many side by side, in this order; a run that would not be over by the limit does not begin.

        `going_s`: how long those will go on that have begun.
        """
        free_s = [*going_s, *[0.0] * (jobs - len(going_s))]  # when each place is free
        heapq.heapify(free_s)
        begun, left_out, over_s = [], [], max(free_s)
        for cell in waiting:
            ends_s = free_s[0] + self.takes_s(cell)
            if limit_s is not None and ends_s > limit_s:
                left_out.append(cell)
                continue
            heapq.heapreplace(free_s, ends_s)
            begun.append(cell)
            over_s = max(over_s, ends_s)
        return Outlook(begun, left_out, over_s)
