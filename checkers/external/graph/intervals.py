"""Where cycles can be: the method that needs no iteration.

Order the operations by their lines. An edge that goes back in that order spans an interval; overlapping
intervals are merged. Every cycle lies inside one merged interval, whatever the order chosen, because
each step of the order that the cycle spans must be crossed backwards by one of its edges. So the edges
inside one interval are all that has to be looked at, and intervals know nothing of each other.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from checkers.external.graph.edges import Edges

Intervals = tuple[np.ndarray, np.ndarray]
"""The first and the last line of each."""


def reaches(edges: Mapping[int, Edges]) -> Intervals:
    """What the edges that go back span."""
    back = [part[part.dst < part.src] for part in edges.values()]
    return np.concatenate([part.dst for part in back]), np.concatenate([part.src for part in back])


def merged(low: np.ndarray, high: np.ndarray) -> Intervals:
    """In order, and those that overlap or touch in a line as one."""
    if not len(low):
        return low, high
    order = np.argsort(low)
    low, reach = low[order], np.maximum.accumulate(high[order])
    opens = np.concatenate([[True], low[1:] > reach[:-1]])
    return low[opens], reach[np.concatenate([opens[1:], [True]])]


@dataclass(frozen=True)
class MergedIntervals:
    """Merged intervals, and the group of each: what one task looks at together."""

    first: np.ndarray
    last: np.ndarray
    group: np.ndarray

    def span_of(self, line: np.ndarray) -> np.ndarray:
        """The number of the interval that holds each line; -1: none does."""
        at = np.searchsorted(self.first, line, side="right") - 1
        return np.where((at >= 0) & (line <= self.last[at]), at, -1)

    def within(self, edges: Edges) -> tuple[Edges, np.ndarray]:
        """The edges of which both ends lie in one interval, and the group of each."""
        span = self.span_of(edges.src)
        kept = np.flatnonzero(span >= 0)
        kept = kept[self.span_of(edges.dst[kept]) == span[kept]]
        return edges[kept], self.group[span[kept]]


def make_spans(first: np.ndarray, last: np.ndarray, lines_a_group: int) -> MergedIntervals:
    """Of merged intervals, as many in a group as have about so many lines."""
    before = np.cumsum(last - first + 1) - (last - first + 1)
    return MergedIntervals(first, last, (before // lines_a_group).astype(np.int32))
