"""Strongly connected components of one part of a dependency graph, and a short cycle in each.

A realtime edge leads from every ok operation to every operation that was invoked after its completion, so the number of
these edges is quadratic. In this module they lead through *moments*: one for each ok completion, in a chain. That needs
about as many edges as operations, and gives the same paths.

A graph with more kinds of edges is checked after a graph with fewer kinds. The components of the smaller graph are
merged first, so little work is left. Only wr, ww and rw edges can go back. So a graph is checked only in the intervals
where its edges go back (`checkers.histories.packs`). Without rw edges there are very few.

The search for a cycle looks for a shortest cycle through each of the component's first operations. In a component of up
to `TRIES` operations that is the shortest of all cycles. In a large component the search ends after `BUDGET`
operations: any cycle is good enough there, and the shortest cycle would take too long.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components

from checkers.external_tables import PROCESS, REALTIME, RW, CycleKind
from checkers.histories.arrays import begins, order_by
from checkers.histories.packs import merge_intervals

_NONE = np.empty(0, np.int32)
Ends = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class _Strong:
    """The component of each vertex, and whether that component has a cycle."""

    labels: np.ndarray
    cyclic: np.ndarray
    between: Ends | None  # the edges between components; None: not all edges were considered


@dataclass
class GraphPart:
    """A part of the graph: edges by kind, and vertices in order. Vertices from `count` upwards are moments."""

    count: int
    edges: dict[int, Ends]
    references: dict[int, np.ndarray] = field(default_factory=dict)  # by kind: the record of each edge
    done: np.ndarray = field(default_factory=lambda: _NONE)  # the completing operation of each moment
    known: dict[frozenset[int], _Strong] = field(default_factory=dict)
    spans: dict[frozenset[int], np.ndarray | None] = field(default_factory=dict)


def add_orders(
    part: GraphPart, line: np.ndarray, invoked: np.ndarray, process: np.ndarray, ok: np.ndarray
) -> None:
    """Add process and realtime edges between the vertices, which are sorted by `line`."""
    by_process = np.lexsort((line, process))
    # The last ok operation before each one in this order. Only an ok operation is known to have ended.
    earlier = np.maximum.accumulate(np.where(ok[by_process], np.arange(len(line)), -1))[:-1]
    source, target = by_process[np.maximum(earlier, 0)], by_process[1:]
    same = (earlier >= 0) & (process[source] == process[target])
    part.edges[PROCESS] = (source[same].astype(np.int32), target[same].astype(np.int32))
    done = np.flatnonzero(ok)
    part.done = done
    if not len(done):
        return
    moment = part.count + np.arange(len(done))
    last_done = np.searchsorted(line[done], invoked, side="left") - 1
    follows = last_done >= 0
    part.edges[REALTIME] = (
        np.concatenate([done, moment[:-1], moment[last_done[follows]]]).astype(np.int32),
        np.concatenate([moment, moment[1:], np.flatnonzero(follows)]).astype(np.int32),
    )


@dataclass(frozen=True)
class Component:
    """A strongly connected component of a graph: its operations, and the positions of its edges by kind."""

    vertices: np.ndarray  # sorted, without moments
    edges: dict[int, np.ndarray]


@dataclass(frozen=True)
class Components:
    """The components of one graph, by their first operation."""

    first: np.ndarray
    size: np.ndarray  # the number of operations
    part: GraphPart
    graph: CycleKind
    label: np.ndarray

    def __len__(self) -> int:
        return len(self.first)

    def some(self, numbers: np.ndarray) -> Iterator[Component]:
        """Yield the components with these numbers."""
        labels = self.part.known[self.graph.kinds].labels
        wanted = np.zeros(labels.max(initial=-1) + 1, bool)
        wanted[self.label[numbers]] = True
        vertices = np.flatnonzero(wanted[labels[: self.part.count]])
        members = _by_label(labels[vertices], self.label[numbers])
        touched = wanted[labels]
        inside = {}
        for kind in sorted(self.graph.kinds):
            src, dst = self.part.edges.get(kind, (_NONE, _NONE))
            at = np.flatnonzero(touched[src])
            at = at[labels[src[at]] == labels[dst[at]]]
            inside[kind] = at, _by_label(labels[src[at]], self.label[numbers])
        for number in range(len(numbers)):
            edges = {kind: at[rows[number]] for kind, (at, rows) in inside.items()}
            yield Component(vertices[members[number]], edges)


def components(part: GraphPart, graph: CycleKind) -> Components:
    """Return the components of a graph in which no smaller graph has a cycle."""
    strong = _strong(part, graph.kinds)
    labels, cyclic = strong.labels, strong.cyclic
    has_smaller_cycle = np.zeros(labels.max(initial=-1) + 1, bool)
    for smaller in graph.smaller:
        has_smaller_cycle[labels[_strong(part, smaller.kinds).cyclic]] = True
    vertices = np.flatnonzero((cyclic & ~has_smaller_cycle[labels])[: part.count])
    label, at, size = np.unique(labels[vertices], return_index=True, return_counts=True)
    order = np.argsort(at)
    return Components(vertices[at[order]], size[order], part, graph, label[order])


def _by_label(labels: np.ndarray, wanted: np.ndarray) -> list[np.ndarray]:
    """Return for each wanted label the positions at which it occurs."""
    order = np.argsort(labels, kind="stable")
    ends = np.searchsorted(labels[order], wanted, side="right")
    starts = np.searchsorted(labels[order], wanted, side="left")
    return [order[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]


def _strong(part: GraphPart, kinds: frozenset[int]) -> _Strong:
    """Return the components of the graph with these kinds of edges."""
    if kinds in part.known:
        return part.known[kinds]
    base = max((known for known in part.known if known < kinds), key=len, default=None)
    smaller = part.known[base] if base is not None else None
    merged_labels = smaller.labels if smaller else np.arange(part.count + len(part.done), dtype=np.int32)
    pieces: list[Ends] = []
    added, span = kinds, _spans(part, kinds - {PROCESS, REALTIME})
    if base is not None and smaller and smaller.between:
        pieces, added = [smaller.between], kinds - base
    for kind in sorted(added):
        src, dst = part.edges.get(kind, (_NONE, _NONE))
        if span is not None:
            inside = np.flatnonzero(span[src] >= 0)
            inside = inside[span[src[inside]] == span[dst[inside]]]
            src, dst = src[inside], dst[inside]
        pieces.append((merged_labels[src], merged_labels[dst]))
    src, dst = (np.concatenate(ends) for ends in zip(*pieces, strict=True))
    labels, between = (
        _merge_components(merged_labels, src, dst)
        if span is None
        else (_merge_touched(merged_labels, src, dst), None)
    )
    cyclic = np.bincount(labels, minlength=1)[labels] > 1
    part.known[kinds] = _Strong(labels, cyclic, between)
    return part.known[kinds]


def _spans(part: GraphPart, kinds: frozenset[int]) -> np.ndarray | None:
    """Return for each vertex the interval that contains it, or -1. None: the restriction to intervals would save no
    work.

    `kinds` are the kinds of edges that can go back. A moment has the position of its operation.
    """
    if kinds not in part.spans:
        edges = [part.edges.get(kind, (_NONE, _NONE)) for kind in sorted(kinds)]
        low = np.concatenate([dst[dst < src] for src, dst in edges])
        low, high = merge_intervals(low, np.concatenate([src[dst < src] for src, dst in edges]))
        position = np.concatenate([np.arange(part.count), part.done])
        at = np.searchsorted(low, position, side="right") - 1
        inside = (at >= 0) & (position <= np.append(high, -1)[at])
        saves_work = 2 * int((high - low + 1).sum()) <= part.count
        part.spans[kinds] = np.where(inside, at, -1) if saves_work else None
    return part.spans[kinds]


def _merge_components(merged_labels: np.ndarray, src: np.ndarray, dst: np.ndarray) -> tuple[np.ndarray, Ends]:
    """Return the component of each vertex, and the edges between components."""
    src, dst, component = _components(src, dst, int(merged_labels.max(initial=-1)) + 1)
    src, dst = component[src], component[dst]
    apart = src != dst
    return component[merged_labels], (src[apart], dst[apart])


def _merge_touched(merged_labels: np.ndarray, src: np.ndarray, dst: np.ndarray) -> np.ndarray:
    """Return the component of each vertex, if there are few edges. Vertices that no edge touches keep their label."""
    touched, ends = np.unique(np.concatenate([src, dst]), return_inverse=True)
    sources, targets = np.split(ends.astype(np.int32), 2)
    _, _, component = _components(sources, targets, len(touched))
    first = np.zeros(int(component.max(initial=-1)) + 1, np.int32)
    first[component[::-1]] = touched[::-1]
    label = np.arange(int(merged_labels.max(initial=-1)) + 1, dtype=np.int32)
    label[touched] = first[component]
    labels: np.ndarray = label[merged_labels]
    return labels


def _components(src: np.ndarray, dst: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the sources and the targets of the edges, and the component of each vertex. Each edge is there once, and
    edges from a vertex to itself are left out.

    scipy's search does not end if an edge occurs twice.
    """
    apart = src != dst
    # scipy sorts the edges of each vertex while it counts them: three times faster than to sort all edges.
    matrix = csr_matrix((np.ones(np.count_nonzero(apart)), (src[apart], dst[apart])), shape=(size, size))
    src = np.repeat(np.arange(size, dtype=np.int32), np.diff(matrix.indptr))
    _, component = connected_components(matrix, directed=True, connection="strong")
    return src, matrix.indices, component


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
        # It takes half as long to sort values as to sort their positions.
        packed = np.sort((src.astype(np.int64) << 32) | dst)
        src, self._to = packed >> 32, packed & 0xFFFFFFFF
        starts = np.flatnonzero(begins(src))
        ends = np.append(starts[1:], len(src))[: len(starts)]
        spans = zip(starts.tolist(), ends.tolist(), strict=True)
        self._at = dict(zip(src[starts].tolist(), spans, strict=True))

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
