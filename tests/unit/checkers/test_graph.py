"""Components and cycles of a few operations, and the intervals that hold them."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

from checkers.graph.components import Part, add_orders, components
from checkers.graph.cycles import Step, cycle_with_one_rw, shortest_cycle
from checkers.graph.intervals import _merge, _span_of
from checkers.graph.names import GRAPHS, PROCESS, REALTIME, RW, WR, WW

Pair = tuple[int, int]


def part(
    count: int,
    *,
    wr: Sequence[Pair] = (),
    ww: Sequence[Pair] = (),
    rw: Sequence[Pair] = (),
    processes: str = "",
    failed: str = "",
) -> Part:
    """Operations 0, 1, ..., each completed before the next one is invoked, in one span."""

    def ends(pairs: Sequence[Pair]) -> tuple[np.ndarray, np.ndarray]:
        return np.array([a for a, _ in pairs], np.int64), np.array([b for _, b in pairs], np.int64)

    made = Part(count, {WR: ends(wr), WW: ends(ww), RW: ends(rw)})
    number = np.arange(count)
    process = np.array([int(letter) for letter in processes or "".join(map(str, range(count)))])
    ok = np.array([str(n) not in failed for n in range(count)])
    add_orders(made, 10 * number + 5, 10 * number, process, ok, np.zeros(count, np.int64))
    return made


def named(made: Part) -> dict[str, list[list[int]]]:
    """By name, the operations of each component; a pair of twins under the plainer name."""
    found = {}
    for graph in GRAPHS:
        if graph.single is not False and (here := [c.vertices.tolist() for c in components(made, graph)]):
            found[graph.name] = here
    return found


def test_a_circle_of_reads_is_g1c_and_nothing_that_needs_more() -> None:
    assert named(part(3, wr=[(0, 1), (1, 2), (2, 0)])) == {"G1c": [[0, 1, 2]]}


def test_a_circle_that_needs_a_write_after_a_write_is_named_for_it() -> None:
    assert named(part(2, wr=[(1, 0)], ww=[(0, 1)], failed="01")) == {"G1c-ww": [[0, 1]]}


def test_a_read_before_it_was_sent_is_g1c_realtime() -> None:
    assert named(part(2, wr=[(1, 0)])) == {"G1c-realtime": [[0, 1]]}


def test_what_was_not_ok_comes_before_nothing() -> None:
    assert named(part(2, wr=[(1, 0)], failed="0")) == {}


def test_the_order_of_a_process_is_a_name_of_its_own() -> None:
    found = named(part(3, wr=[(2, 0)], processes="010"))
    assert found == {"G1c-process": [[0, 2]], "G1c-realtime": [[0, 1, 2]]}


def test_two_circles_are_two_components() -> None:
    assert named(part(4, wr=[(0, 1), (1, 0), (2, 3), (3, 2)])) == {"G1c": [[0, 1], [2, 3]]}


@pytest.mark.parametrize(("rw", "wr", "single"), [([(1, 0)], [(0, 1)], True), ([(0, 1), (1, 0)], [], False)])
def test_one_rw_edge_is_told_from_two(rw: list[Pair], wr: list[Pair], single: bool) -> None:
    made = part(2, rw=rw, wr=wr)
    graph = next(graph for graph in GRAPHS if graph.name == "G-single")
    (component,) = components(made, graph)
    assert bool(cycle_with_one_rw(component, made.count)) is single


def test_a_shortest_cycle_is_told_step_by_step() -> None:
    made = part(4, wr=[(0, 1), (1, 2), (2, 3), (3, 0), (1, 0)])
    (component,) = components(made, next(graph for graph in GRAPHS if graph.name == "G1c"))
    assert shortest_cycle(component, made.count) == [Step(0, 1, WR), Step(1, 0, WR)]


def test_a_path_through_moments_is_one_realtime_step() -> None:
    made = part(3, wr=[(2, 0)])
    graph = next(graph for graph in GRAPHS if graph.name == "G1c-realtime")
    (component,) = components(made, graph)
    assert shortest_cycle(component, made.count) == [Step(0, 2, REALTIME), Step(2, 0, WR)]


def test_process_order_skips_what_was_not_ok() -> None:
    made = part(3, processes="000", failed="1")
    assert list(zip(*(ends.tolist() for ends in made.edges[PROCESS]), strict=True)) == [(0, 1), (0, 2)]


def test_intervals_that_overlap_or_touch_are_one() -> None:
    rows = {"run": [1, 1, 1, 1, 2], "dst": [1, 3, 6, 20, 2], "src": [4, 6, 9, 22, 5]}
    batches = list(_merge(iter([pa.RecordBatch.from_pydict(rows)])))
    merged = pa.Table.from_batches(batches).to_pylist()
    assert [(row["run"], row["first"], row["last"]) for row in merged] == [(1, 1, 9), (1, 20, 22), (2, 2, 5)]


def test_an_edge_is_inside_only_if_both_its_ends_are_in_one_interval() -> None:
    first, last = np.array([1, 20]), np.array([9, 22])
    one, other = np.array([1, 9, 9, 10, 0]), np.array([9, 1, 20, 10, 5])
    assert _span_of(first, last, one, other).tolist() == [0, 0, -1, -1, -1]
