"""Cycles of small random graphs are as short as they can be, and made of edges that are there."""

from collections.abc import Iterator, Sequence
from itertools import pairwise, permutations
from random import Random

import numpy as np
import pytest
from graphs import Pair, graph_of, in_full, part

from checkers.external_tables import RW, WR, WW
from checkers.histories import components as cycles
from checkers.histories.components import CycleStep, GraphPart, cycle_with_one_rw, shortest_cycle

COUNT = 6
SEEDS = range(60)
Edges = dict[int, list[Pair]]


def edges_of(seed: int) -> Edges:
    """Of each kind some, in no order."""
    rng = Random(seed)
    every = list(permutations(range(COUNT), 2))
    return {kind: rng.sample(every, rng.choice([2, 4, 6])) for kind in (WR, WW, RW)}


def made_of(edges: Edges) -> GraphPart:
    return part(COUNT, wr=edges[WR], ww=edges[WW], rw=edges[RW])


def circles(edges: Edges, kinds: Sequence[int], vertices: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """All paths from an operation of these back to itself, by way of others of these."""
    there = {pair for kind in kinds for pair in edges[kind]}
    for length in range(2, len(vertices) + 1):
        for path in permutations(vertices, length):
            if all(pair in there for pair in pairwise((*path, path[0]))):
                yield path


def check(made: GraphPart, cycle: Sequence[CycleStep]) -> None:
    """The steps lead round in a circle, and each is an edge of its kind."""
    assert [step.dst for step in cycle] == [step.src for step in (*cycle[1:], cycle[0])]
    for step in cycle:
        src, dst = made.edges[step.kind]
        assert (src[step.at], dst[step.at]) == (step.src, step.dst)


@pytest.mark.parametrize("name", ["G0", "G1c", "G1c-ww"])
def test_a_cycle_is_a_shortest_one_and_made_of_edges(name: str) -> None:
    graph, found = graph_of(name), 0
    for seed in SEEDS:
        edges = edges_of(seed)
        made = made_of(edges)
        for component in in_full(made, graph):
            cycle = shortest_cycle(made, component)
            check(made, cycle)
            every = list(circles(edges, sorted(graph.kinds), component.vertices.tolist()))
            assert (len(cycle), cycle[0].src) == min((len(path), path[0]) for path in every)
            assert {step.kind for step in cycle} <= graph.kinds
            found += 1
    assert found > 5


def with_one_rw(edges: Edges, vertices: Sequence[int]) -> list[int]:
    """The lengths of the circles in which one edge must be rw, and the others need not be."""
    others = {pair for kind in (WR, WW) for pair in edges[kind]}
    lengths = []
    for path in circles(edges, (WR, WW, RW), vertices):
        pairs = list(pairwise((*path, path[0])))
        if any(one in edges[RW] and others.issuperset({*pairs} - {one}) for one in pairs):
            lengths.append(len(path))
    return lengths


def test_a_cycle_with_one_rw_edge_is_a_shortest_of_these() -> None:
    found = none = 0
    for seed in SEEDS:
        edges = edges_of(seed)
        made = made_of(edges)
        for component in in_full(made, graph_of("G-single")):
            cycle = cycle_with_one_rw(made, component)
            lengths = with_one_rw(edges, component.vertices.tolist())
            if not cycle:
                assert not lengths
                none += 1
                continue
            check(made, cycle)
            assert len(cycle) == min(lengths)
            assert [step.kind for step in cycle].count(RW) == 1
            found += 1
    assert found > 5
    assert none > 0


@pytest.mark.parametrize("seed", SEEDS)
def test_the_cycle_does_not_depend_on_the_order_of_edges(seed: int) -> None:
    edges, rng = edges_of(seed), Random(seed)

    def all_cycles() -> list[list[tuple[int, int, int]]]:
        made = made_of(edges)
        every = [
            *(
                shortest_cycle(made, one)
                for name in ("G1c", "G1c-ww")
                for one in in_full(made, graph_of(name))
            ),
            *(cycle_with_one_rw(made, one) for one in in_full(made, graph_of("G-single"))),
        ]
        return [[(step.src, step.dst, step.kind) for step in steps] for steps in every]

    before = all_cycles()
    for pairs in edges.values():
        rng.shuffle(pairs)
    assert all_cycles() == before


def test_edges_are_ordered() -> None:
    """By their ends, and then by the records that they go by."""
    every = [(one, other, number) for number in range(2) for one in range(4) for other in range(4)]
    for seed in range(5):
        some = every.copy()
        Random(seed).shuffle(some)
        made = part(4, wr=[(one, other) for one, other, _ in some])
        made.references[WR] = np.array([reference for *_, reference in some])
        positions = cycles._in_order(made, WR, np.arange(len(some)))
        assert [some[at] for at in positions.tolist()] == sorted(every)


def test_a_search_ends_after_its_limit_if_it_has_a_cycle(monkeypatch: pytest.MonkeyPatch) -> None:
    """A circle of six through the first operation, and one of two among the last."""
    pairs = [*pairwise((0, 1, 2, 3, 4, 5)), (5, 0), (5, 4)]
    made = part(COUNT, wr=pairs)
    (component,) = in_full(made, graph_of("G1c"))
    assert len(shortest_cycle(made, component)) == 2
    for budget, length in ((1, 6), (6, 6), (200, 2)):
        monkeypatch.setattr(cycles, "BUDGET", budget)
        assert len(shortest_cycle(made, component)) == length
