"""Graphs of a few operations."""

from collections.abc import Sequence

import numpy as np

from checkers.external_tables import GRAPHS, RW, WR, WW, CycleKind
from checkers.histories.components import Component, GraphPart, add_orders, components

Pair = tuple[int, int]


def part(
    count: int,
    *,
    wr: Sequence[Pair] = (),
    ww: Sequence[Pair] = (),
    rw: Sequence[Pair] = (),
    processes: str = "",
    failed: str = "",
) -> GraphPart:
    """Operations 0, 1, ..., each completed before the next one is invoked."""

    def ends(pairs: Sequence[Pair]) -> tuple[np.ndarray, np.ndarray]:
        return np.array([a for a, _ in pairs], np.int32), np.array([b for _, b in pairs], np.int32)

    made = GraphPart(count, {WR: ends(wr), WW: ends(ww), RW: ends(rw)})
    number = np.arange(count)
    process = np.array([int(letter) for letter in processes or "".join(map(str, range(count)))])
    ok = np.array([str(n) not in failed for n in range(count)])
    add_orders(made, 10 * number + 5, 10 * number, process, ok)
    return made


def in_full(made: GraphPart, graph: CycleKind) -> list[Component]:
    """The components of one graph."""
    found = components(made, graph)
    return list(found.some(np.arange(len(found))))


def named(made: GraphPart) -> dict[str, list[list[int]]]:
    """By name, the operations of each component; a pair of twins under the plainer name."""
    found = {}
    for graph in GRAPHS:
        if graph.single is not False and (here := in_full(made, graph)):
            found[graph.name] = [component.vertices.tolist() for component in here]
    return found


def graph_of(name: str) -> CycleKind:
    return next(graph for graph in GRAPHS if graph.name == name)
