"""Which rows of a large table are drawn: those near faults and findings first, and of the others every nth row.

A table is read twice, batch by batch: once to count its rows, and once to take the rows to draw.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa


@dataclass
class Drawn:
    """How many rows of a kind are in the trace, and how many there are."""

    drawn: int = 0
    total: int = 0
    reason: str = ""
    """Why rows are left out, if the limit is not the only reason."""


class Intervals:
    """Intervals of time, in nanoseconds since the run began. They may overlap."""

    def __init__(self, intervals: Iterable[tuple[float, float]] = ()) -> None:
        merged: list[list[float]] = []
        for begin, end in sorted(intervals):
            if merged and begin <= merged[-1][1]:
                merged[-1][1] = max(merged[-1][1], end)
            else:
                merged.append([begin, end])
        self._begins = np.array([begin for begin, _ in merged])
        self._ends = np.array([end for _, end in merged])

    def contain(self, times_ns: np.ndarray) -> np.ndarray:
        """Return for each time whether it is in one of the intervals."""
        if not len(self._begins):
            return np.zeros(len(times_ns), bool)
        before = np.searchsorted(self._begins, times_ns, side="right") - 1
        return (before >= 0) & (times_ns <= self._ends[np.maximum(before, 0)])


@dataclass
class Sampler:
    """Chooses at most about `most` rows. Count all rows first, then ask for the rows to keep in the same order."""

    most: int
    near: Intervals = field(default_factory=Intervals)
    total: int = 0
    kept: int = 0
    _near_total: int = 0
    _seen: list[int] = field(default_factory=lambda: [0, 0])  # others, near

    def count(self, times_ns: np.ndarray) -> None:
        """Count the rows of a batch."""
        self.total += len(times_ns)
        self._near_total += int(np.count_nonzero(self.near.contain(times_ns)))

    def keep(self, times_ns: np.ndarray, wanted: np.ndarray | None = None) -> np.ndarray:
        """Return which rows of the next batch to draw: those that `wanted` names, and those of the sample."""
        near = self.near.contain(times_ns)
        mask = np.zeros(len(near), bool) if wanted is None else wanted.copy()
        for group, is_in in ((0, ~near), (1, near)):
            every = self._every(group)
            if every:
                mask[is_in] |= (self._seen[group] + np.arange(np.count_nonzero(is_in))) % every == 0
            self._seen[group] += int(np.count_nonzero(is_in))
        self.kept += int(np.count_nonzero(mask))
        return mask

    def _every(self, group: int) -> int:
        """Return n if every nth row of a group is drawn. 0: none is drawn."""
        if group:
            count, room = self._near_total, self.most
        else:
            count, room = self.total - self._near_total, max(0, self.most - self._near_total)
        return -(-count // room) if room else 0


def sample(
    read: Callable[[], Iterator[pa.Table]],
    time_column: str,
    sampler: Sampler,
    wanted: Callable[[pa.Table], np.ndarray] = lambda table: np.zeros(len(table), bool),
) -> pa.Table | None:
    """Return the rows to draw. None: there are no rows.

    Args:
        read: reads the table, part by part; it is called twice
        time_column: the column by which rows are near to a fault or a finding
        sampler: chooses the rows
        wanted: which rows of a part to keep in any case
    """
    for part in read():
        sampler.count(_times(part, time_column))
    parts = [part.filter(pa.array(sampler.keep(_times(part, time_column), wanted(part)))) for part in read()]
    return pa.concat_tables(parts) if parts else None


def _times(part: pa.Table, column: str) -> np.ndarray:
    return np.asarray(part[column].to_numpy(zero_copy_only=False), float)
