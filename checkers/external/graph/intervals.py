"""Find where cycles can be, without iteration.

Order the operations by their lines. An edge that goes back in this order spans an interval. Overlapping intervals are
merged. Every cycle lies in one merged interval, for any order: between the first and the last operation of a cycle,
each step of the order must be crossed backwards by an edge of the cycle. So only edges inside one interval must be
checked, and intervals are independent.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from checkers.external.graph.edges import Edges

Intervals = tuple[np.ndarray, np.ndarray]
"""The first and the last line of each interval."""


def backward_spans(edges: Mapping[int, Edges]) -> Intervals:
    """Return the intervals that edges span backwards."""
    back = [part[part.dst < part.src] for part in edges.values()]
    return np.concatenate([part.dst for part in back]), np.concatenate([part.src for part in back])


def merge_intervals(low: np.ndarray, high: np.ndarray) -> Intervals:
    """Return the intervals in order; those that overlap or touch are merged."""
    if not len(low):
        return low, high
    order = np.argsort(low)
    low, reach = low[order], np.maximum.accumulate(high[order])
    opens = np.concatenate([[True], low[1:] > reach[:-1]])
    return low[opens], reach[np.concatenate([opens[1:], [True]])]


@dataclass(frozen=True)
class MergedIntervals:
    """Merged intervals, and the group of each: the intervals that one task checks together."""

    first: np.ndarray
    last: np.ndarray
    group: np.ndarray

    def span_of(self, line: np.ndarray) -> np.ndarray:
        """Return the number of the interval that contains each line, or -1."""
        at = np.searchsorted(self.first, line, side="right") - 1
        return np.where((at >= 0) & (line <= self.last[at]), at, -1)

    def within(self, edges: Edges) -> tuple[Edges, np.ndarray]:
        """Return the edges with both ends in one interval, and the group of each."""
        span = self.span_of(edges.src)
        inside = np.flatnonzero(span >= 0)
        inside = inside[self.span_of(edges.dst[inside]) == span[inside]]
        return edges[inside], self.group[span[inside]]


def make_spans(first: np.ndarray, last: np.ndarray, lines_a_group: int) -> MergedIntervals:
    """Group merged intervals so that each group has about `lines_a_group` lines."""
    before = np.cumsum(last - first + 1) - (last - first + 1)
    return MergedIntervals(first, last, (before // lines_a_group).astype(np.int32))
