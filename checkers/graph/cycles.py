"""A short cycle in a component, and the steps that make it.

A shortest one through any of the component's first operations is looked for, which in a component of up to
`TRIES` operations is a shortest one of all.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from checkers.graph.components import Component
from checkers.graph.names import REALTIME, RW

TRIES = 64
Neighbours = Mapping[int, Sequence[int]]


@dataclass(frozen=True)
class Step:
    """One edge of a cycle, between vertices; a path through moments is one realtime step."""

    src: int
    dst: int
    kind: int


def shortest_cycle(component: Component, count: int) -> list[Step]:
    """A cycle in the component. Vertices from `count` upwards are moments."""
    ahead = _neighbours(component, component.edges)
    best: list[int] = []
    for start in component.vertices[:TRIES].tolist():
        best = _path(ahead, start, start, len(best)) or best
        if len(best) == 3:
            break
    return _steps(component, best, count)


def cycle_with_one_rw(component: Component, count: int) -> list[Step]:
    """A cycle in which exactly one edge is rw; empty if there is none among the first that are tried."""
    ahead = _neighbours(component, component.edges.keys() - {RW})
    best: list[int] = []
    for one, other in zip(*(ends[: TRIES * TRIES].tolist() for ends in component.edges[RW]), strict=True):
        best = _path(ahead, other, one, len(best)) or best
        if len(best) == 2:
            break
    return [Step(best[-1], best[0], RW), *_steps(component, best, count)] if best else []


def _neighbours(component: Component, kinds: Iterable[int]) -> Neighbours:
    """Where the edges of these kinds lead from each vertex."""
    ahead: dict[int, list[int]] = defaultdict(list)
    for kind in kinds:
        for one, other in zip(*(ends.tolist() for ends in component.edges[kind]), strict=True):
            ahead[one].append(other)
    return ahead


def _path(ahead: Neighbours, start: int, goal: int, below: int) -> list[int]:
    """A shortest path of at least one step, its vertices; empty if there is none of fewer than `below`."""
    came: dict[int, int] = {}
    queue: deque[tuple[int, int]] = deque([(start, 1)])
    while queue:
        here, length = queue.popleft()
        if below and length + 1 >= below:
            return []
        for there in ahead.get(here, ()):
            if there == goal:
                return _back(came, start, [goal, here])
            if there not in came and there != start:
                came[there] = here
                queue.append((there, length + 1))
    return []


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
