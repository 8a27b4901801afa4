"""Find a short cycle in a component.

The search looks for a shortest cycle through each of the component's first operations. In a component of up to `TRIES`
operations that is the shortest of all cycles. In a large component the search ends after `BUDGET` operations: any cycle
is good enough there, and the shortest cycle would take too long.
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
    """One edge of a cycle, between vertices. A path through moments is one realtime step."""

    src: int
    dst: int
    kind: int
    at: int = -1  # position among the part's edges of its kind; -1 for a realtime step


def shortest_cycle(part: GraphPart, component: Component) -> list[CycleStep]:
    """Return a short cycle in the component."""
    path_search = _Search(_Neighbours(part, component, component.edges))
    for start in component.vertices[:TRIES].tolist():
        path_search.search(start, start)
        if path_search.is_over(3):
            break
    return _steps(part, component, path_search.best)


def cycle_with_one_rw(part: GraphPart, component: Component) -> list[CycleStep]:
    """Return a cycle with exactly one rw edge; empty if the search found none within its budget."""
    path_search = _Search(_Neighbours(part, component, component.edges.keys() - {RW}))
    candidates = _in_order(part, RW, component.edges[RW])[: TRIES * TRIES]
    src, dst = (ends[candidates].tolist() for ends in part.edges[RW])
    at = -1
    for number, source, target in zip(candidates.tolist(), src, dst, strict=True):
        length = len(path_search.best)
        path_search.search(target, source)
        at = number if len(path_search.best) != length else at
        if path_search.is_over(2):
            break
    best = path_search.best
    return [CycleStep(best[-1], best[0], RW, at), *_steps(part, component, best)] if best else []


class _Neighbours:
    """The targets of a component's edges of some kinds, by vertex."""

    def __init__(self, part: GraphPart, component: Component, kinds: Iterable[int]) -> None:
        edges_of_kinds = [(part.edges[kind], component.edges[kind]) for kind in kinds if kind in part.edges]
        src = (
            np.concatenate([ends[0][at] for ends, at in edges_of_kinds])
            if edges_of_kinds
            else np.empty(0, np.int32)
        )
        dst = np.concatenate([ends[1][at] for ends, at in edges_of_kinds]) if edges_of_kinds else src
        order = order_by(src, dst)
        self._to = dst[order]
        vertices, begins = np.unique(src[order], return_index=True)
        ends = [*begins[1:].tolist(), len(src)][: len(begins)]
        self._at = {
            vertex: (begin, end)
            for vertex, begin, end in zip(vertices.tolist(), begins.tolist(), ends, strict=True)
        }

    def of(self, vertex: int) -> list[int]:
        """Return the targets of the edges of a vertex."""
        begin, end = self._at.get(vertex, (0, 0))
        targets: list[int] = self._to[begin:end].tolist()
        return targets


class _Search:
    """Breadth-first searches for a path that is shorter than the best one so far."""

    def __init__(self, ahead: _Neighbours) -> None:
        self._ahead = ahead
        self._left = BUDGET
        self.best: list[int] = []

    def is_over(self, shortest: int) -> bool:
        """Return whether no shorter path is possible, or the budget is used up."""
        return len(self.best) == shortest or self._left <= 0

    def search(self, start: int, goal: int) -> None:
        """Search for a path of at least one step from `start` to `goal`. If it is shorter than `best`, it replaces
        `best`.
        """
        predecessors: dict[int, int] = {}
        queue: deque[tuple[int, int]] = deque([(start, 1)])
        while queue:
            vertex, length = queue.popleft()
            self._left -= 1
            if (self.best and length + 1 >= len(self.best)) or (self._left <= 0 and self.best):
                return
            for neighbour in self._ahead.of(vertex):
                if neighbour == goal:
                    self.best = _path_back(predecessors, start, [goal, vertex])
                    return
                if neighbour not in predecessors and neighbour != start:
                    predecessors[neighbour] = vertex
                    queue.append((neighbour, length + 1))


def _path_back(predecessors: Mapping[int, int], start: int, path: list[int]) -> list[int]:
    while path[-1] != start:
        path.append(predecessors[path[-1]])
    return path[::-1]


def _steps(part: GraphPart, component: Component, path: Sequence[int]) -> list[CycleStep]:
    """Return the edges along a path. If several edges lead from one operation to the next, the edge of the simplest
    kind is returned.
    """
    hops = list(_hops(path, part.count))
    return [
        CycleStep(source, target, REALTIME) if through else _direct(part, component, source, target)
        for source, target, through in hops
    ]


def _direct(part: GraphPart, component: Component, source: int, target: int) -> CycleStep:
    for kind in sorted(component.edges.keys() - {REALTIME}):
        at = component.edges[kind]
        src, dst = part.edges.get(kind, (at, at))
        matches = at[np.flatnonzero((src[at] == source) & (dst[at] == target))]
        if len(matches):
            return CycleStep(source, target, kind, int(_in_order(part, kind, matches)[0]))
    raise AssertionError(f"no edge leads from {source} to {target}, though a path does")


def _in_order(part: GraphPart, kind: int, edges: np.ndarray) -> np.ndarray:
    """Return edges in an order that does not depend on the order of the rows."""
    src, dst = part.edges[kind]
    reference = part.references[kind][edges] if kind in part.references else edges
    ordered: np.ndarray = edges[order_by(src[edges], dst[edges], reference)]
    return ordered


def _hops(path: Sequence[int], count: int) -> Iterator[tuple[int, int, bool]]:
    """Yield the operations along a path in pairs, and whether moments are between them."""
    before, through = path[0] if path else 0, False
    for vertex in path[1:]:
        if vertex >= count:
            through = True
            continue
        yield before, vertex, through
        before, through = vertex, False
