"""Strongly connected components and short cycles, of one part of a dependency graph, in numpy and scipy.

A realtime edge leads from every ok operation to every operation invoked after its completion: that is a
square of them. Here they lead through *moments*, one for each ok completion, in a chain: as many edges as
operations, and the same paths.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from checkers.graph.names import PROCESS, REALTIME, Graph

_NONE = np.empty(0, np.int64)


@dataclass
class Part:
    """A part of the graph: edges by kind between vertices; those from `count` upwards are moments."""

    count: int
    edges: dict[int, tuple[np.ndarray, np.ndarray]]
    moments: int = 0
    known: dict[frozenset[int], tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)  # of _strong


def add_orders(
    part: Part, line: np.ndarray, invoked: np.ndarray, process: np.ndarray, ok: np.ndarray, span: np.ndarray
) -> None:
    """Add process and realtime edges among the vertices, of which these are known, sorted by `line`.

    No edge leads from one span to another: no cycle does.
    """
    by_process = np.lexsort((line, process, span))
    # The last ok operation before each, in this order: only what was ok is known to have ended.
    earlier = np.maximum.accumulate(np.where(ok[by_process], np.arange(len(line)), -1))[:-1]
    one, next_one = by_process[np.maximum(earlier, 0)], by_process[1:]
    same = (earlier >= 0) & (process[one] == process[next_one]) & (span[one] == span[next_one])
    part.edges[PROCESS] = (one[same], next_one[same])
    done = np.flatnonzero(ok)
    part.moments = len(done)
    if not len(done):
        return
    moment = part.count + np.arange(len(done))
    chained = span[done[:-1]] == span[done[1:]]
    last_done = np.searchsorted(line[done], invoked, side="left") - 1
    follows = (last_done >= 0) & (span[done[np.maximum(last_done, 0)]] == span)
    part.edges[REALTIME] = (
        np.concatenate([done, moment[:-1][chained], moment[last_done[follows]]]),
        np.concatenate([moment, moment[1:][chained], np.flatnonzero(follows)]),
    )


@dataclass(frozen=True)
class Component:
    """A strongly connected component of a graph: its operations, and all edges inside it by kind."""

    vertices: np.ndarray  # sorted; moments left out
    edges: dict[int, tuple[np.ndarray, np.ndarray]]


def components(part: Part, graph: Graph) -> Iterator[Component]:
    """The components of a graph that no smaller graph has a cycle in, by their first operation."""
    labels, cyclic = _strong(part, graph.kinds)
    for smaller in graph.smaller:
        taken = np.zeros(labels.max(initial=-1) + 1, bool)
        taken[labels[_strong(part, smaller.kinds)[1]]] = True
        cyclic = cyclic & ~taken[labels]
    vertices = np.flatnonzero(cyclic[: part.count])
    chosen, first = np.unique(labels[vertices], return_index=True)
    members = _by_label(labels[vertices], chosen)
    inside = {}
    for kind in sorted(graph.kinds):
        src, dst = part.edges.get(kind, (_NONE, _NONE))
        within = np.flatnonzero(cyclic[src] & (labels[src] == labels[dst]))
        inside[kind] = (src[within], dst[within], _by_label(labels[src[within]], chosen))
    for at in np.argsort(first):
        edges = {kind: (src[rows[at]], dst[rows[at]]) for kind, (src, dst, rows) in inside.items()}
        yield Component(vertices[members[at]], edges)


def _by_label(labels: np.ndarray, wanted: np.ndarray) -> list[np.ndarray]:
    """For each of the wanted labels, which are sorted, the places that bear it."""
    order = np.argsort(labels, kind="stable")
    ends = np.searchsorted(labels[order], wanted, side="right")
    starts = np.searchsorted(labels[order], wanted, side="left")
    return [order[start:end] for start, end in zip(starts, ends, strict=True)]


def _strong(part: Part, kinds: frozenset[int]) -> tuple[np.ndarray, np.ndarray]:
    """Of each vertex: its component, and whether that holds a cycle."""
    if kinds not in part.known:
        chosen = [part.edges.get(kind, (_NONE, _NONE)) for kind in sorted(kinds)]
        src, dst = (np.concatenate(ends) for ends in zip(*chosen, strict=True))
        size = part.count + part.moments
        matrix = coo_matrix((np.ones(len(src), np.int8), (src, dst)), shape=(size, size))
        _, labels = connected_components(matrix, directed=True, connection="strong")
        part.known[kinds] = labels, np.bincount(labels, minlength=size)[labels] > 1
    return part.known[kinds]
