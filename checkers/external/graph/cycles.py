"""A short cycle in a component, and the steps that make it.

A shortest one through any of the component's first operations is looked for, which in a component of up to
`TRIES` operations is a shortest one of all. In a large one the search ends when it has come by `BUDGET`
operations: any cycle will do there, and a component of a million operations has no time for the best.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from checkers.external.by_key.arrays import order_by
from checkers.external.graph.components import Component, GraphPart
from checkers.external.graph.names import REALTIME, RW

TRIES = 64
BUDGET = 500_000


@dataclass(frozen=True)
class CycleStep:
    """One edge of a cycle, between vertices; a path through moments is one realtime step."""

    src: int
    dst: int
    kind: int
    at: int = -1  # where it stands among the part's edges of its kind; of a realtime step nowhere


def shortest_cycle(part: GraphPart, component: Component) -> list[CycleStep]:
    """A cycle in the component."""
    search = _Search(_Neighbours(part, component, component.edges))
    for start in component.vertices[:TRIES].tolist():
        search.look(start, start)
        if search.over(3):
            break
    return _steps(part, component, search.best)


def cycle_with_one_rw(part: GraphPart, component: Component) -> list[CycleStep]:
    """A cycle in which exactly one edge is rw; empty if none was found before the search had to end."""
    search = _Search(_Neighbours(part, component, component.edges.keys() - {RW}))
    some = _in_order(part, RW, component.edges[RW])[: TRIES * TRIES]
    src, dst = (ends[some].tolist() for ends in part.edges[RW])
    at = -1
    for number, one, other in zip(some.tolist(), src, dst, strict=True):
        length = len(search.best)
        search.look(other, one)
        at = number if len(search.best) != length else at
        if search.over(2):
            break
    best = search.best
    return [CycleStep(best[-1], best[0], RW, at), *_steps(part, component, best)] if best else []


class _Neighbours:
    """Where the edges of some kinds lead from each vertex of a component."""

    def __init__(self, part: GraphPart, component: Component, kinds: Iterable[int]) -> None:
        chosen = [(part.edges[kind], component.edges[kind]) for kind in kinds if kind in part.edges]
        src = np.concatenate([ends[0][at] for ends, at in chosen]) if chosen else np.empty(0, np.int32)
        dst = np.concatenate([ends[1][at] for ends, at in chosen]) if chosen else src
        order = order_by(src, dst)
        self._to = dst[order]
        vertices, begins = np.unique(src[order], return_index=True)
        ends = [*begins[1:].tolist(), len(src)][: len(begins)]
        self._at = {
            vertex: (begin, end)
            for vertex, begin, end in zip(vertices.tolist(), begins.tolist(), ends, strict=True)
        }

    def of(self, vertex: int) -> list[int]:
        """Those of one vertex."""
        begin, end = self._at.get(vertex, (0, 0))
        found: list[int] = self._to[begin:end].tolist()
        return found


class _Search:
    """Breadth-first searches for a path that is shorter than the last one found."""

    def __init__(self, ahead: _Neighbours) -> None:
        self._ahead = ahead
        self._left = BUDGET
        self.best: list[int] = []

    def over(self, shortest: int) -> bool:
        """Whether nothing better can be, or may be, found."""
        return len(self.best) == shortest or self._left <= 0

    def look(self, start: int, goal: int) -> None:
        """Look for a path of at least one step, by its vertices, from `start` to `goal`."""
        came: dict[int, int] = {}
        queue: deque[tuple[int, int]] = deque([(start, 1)])
        while queue:
            here, length = queue.popleft()
            self._left -= 1
            if (self.best and length + 1 >= len(self.best)) or (self._left <= 0 and self.best):
                return
            for there in self._ahead.of(here):
                if there == goal:
                    self.best = _back(came, start, [goal, here])
                    return
                if there not in came and there != start:
                    came[there] = here
                    queue.append((there, length + 1))


def _back(came: Mapping[int, int], start: int, path: list[int]) -> list[int]:
    while path[-1] != start:
        path.append(came[path[-1]])
    return path[::-1]


def _steps(part: GraphPart, component: Component, path: Sequence[int]) -> list[CycleStep]:
    """The edges along a path; of several between two operations the plainest kind."""
    hops = list(_hops(path, part.count))
    return [
        CycleStep(one, other, REALTIME) if through else _direct(part, component, one, other)
        for one, other, through in hops
    ]


def _direct(part: GraphPart, component: Component, one: int, other: int) -> CycleStep:
    for kind in sorted(component.edges.keys() - {REALTIME}):
        at = component.edges[kind]
        src, dst = part.edges.get(kind, (at, at))
        found = at[np.flatnonzero((src[at] == one) & (dst[at] == other))]
        if len(found):
            return CycleStep(one, other, kind, int(_in_order(part, kind, found)[0]))
    raise AssertionError(f"no edge leads from {one} to {other}, though a path does")


def _in_order(part: GraphPart, kind: int, edges: np.ndarray) -> np.ndarray:
    """Some edges, in an order that does not depend on that in which they came."""
    src, dst = part.edges[kind]
    reference = part.references[kind][edges] if kind in part.references else edges
    ordered: np.ndarray = edges[order_by(src[edges], dst[edges], reference)]
    return ordered


def _hops(path: Sequence[int], count: int) -> Iterator[tuple[int, int, bool]]:
    """The operations along a path, two by two, and whether moments lie between them."""
    before, through = path[0] if path else 0, False
    for vertex in path[1:]:
        if vertex >= count:
            through = True
            continue
        yield before, vertex, through
        before, through = vertex, False
