"""A short cycle in a component, and the steps that make it.

A shortest one through any of the component's first operations is looked for, which in a component of up to
`TRIES` operations is a shortest one of all. In a large one the search ends when it has come by `BUDGET`
operations: any cycle will do there, and a component of a million operations has no time for the best.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from checkers.graph.components import Component
from checkers.graph.names import REALTIME, RW

TRIES = 64
BUDGET = 500_000
Neighbours = Mapping[int, Sequence[int]]


@dataclass(frozen=True)
class Step:
    """One edge of a cycle, between vertices; a path through moments is one realtime step."""

    src: int
    dst: int
    kind: int


def shortest_cycle(component: Component, count: int) -> list[Step]:
    """A cycle in the component. Vertices from `count` upwards are moments."""
    search = _Search(_neighbours(component, component.edges))
    for start in component.vertices[:TRIES].tolist():
        search.look(start, start)
        if search.over(3):
            break
    return _steps(component, search.best, count)


def cycle_with_one_rw(component: Component, count: int) -> list[Step]:
    """A cycle in which exactly one edge is rw; empty if none was found before the search had to end."""
    search = _Search(_neighbours(component, component.edges.keys() - {RW}))
    for one, other in zip(*(ends[: TRIES * TRIES].tolist() for ends in component.edges[RW]), strict=True):
        search.look(other, one)
        if search.over(2):
            break
    best = search.best
    return [Step(best[-1], best[0], RW), *_steps(component, best, count)] if best else []


def _neighbours(component: Component, kinds: Iterable[int]) -> Neighbours:
    """Where the edges of these kinds lead from each vertex."""
    ahead: dict[int, list[int]] = defaultdict(list)
    for kind in kinds:
        for one, other in zip(*(ends.tolist() for ends in component.edges[kind]), strict=True):
            ahead[one].append(other)
    return ahead


class _Search:
    """Breadth-first searches for a path that is shorter than the last one found."""

    def __init__(self, ahead: Neighbours) -> None:
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
            for there in self._ahead.get(here, ()):
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


def _steps(component: Component, path: Sequence[int], count: int) -> list[Step]:
    """The edges along a path; of several between two operations the plainest kind."""
    hops = list(_hops(path, count))
    wanted = {(one, other) for one, other, through in hops if not through}
    direct: dict[tuple[int, int], int] = {}
    for kind in sorted(component.edges.keys() - {REALTIME}):
        for pair in zip(*(ends.tolist() for ends in component.edges[kind]), strict=True):
            if pair in wanted:
                direct.setdefault(pair, kind)
    return [Step(one, other, REALTIME if through else direct[one, other]) for one, other, through in hops]


def _hops(path: Sequence[int], count: int) -> Iterator[tuple[int, int, bool]]:
    """The operations along a path, two by two, and whether moments lie between them."""
    before, through = path[0] if path else 0, False
    for vertex in path[1:]:
        if vertex >= count:
            through = True
            continue
        yield before, vertex, through
        before, through = vertex, False
