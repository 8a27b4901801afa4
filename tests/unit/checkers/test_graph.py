"""Components and cycles of a few operations, and the intervals that hold them."""

from collections.abc import Mapping, Set
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest
from graphs import Pair, graph_of, in_full, named, part
from pyspark.sql import SparkSession

from checkers.external_tables import GRAPHS, PROCESS, REALTIME, RW, WR, WW, ExternalTables
from checkers.histories.arrays import make_finder
from checkers.histories.components import CycleStep, cycle_with_one_rw, shortest_cycle
from checkers.histories.packs import Edges, make_spans, merge_intervals
from checkers.histories.table import SparkTable, count_operations
from checkers.histories.tables import make_external
from checkers.spark.errors import SPARK_ERRORS
from harness.record.history_form import FAIL, INFO, OK, OPS
from tests.support.micro import Row, micro_table, poll_row, send_row


def test_a_circle_of_reads_is_g1c_and_nothing_that_needs_more() -> None:
    assert named(part(3, wr=[(0, 1), (1, 2), (2, 0)])) == {"G1c": [[0, 1, 2]]}


def test_a_circle_that_needs_a_write_after_a_write_is_named_for_it() -> None:
    assert named(part(2, wr=[(1, 0)], ww=[(0, 1)], failed="01")) == {"G1c-ww": [[0, 1]]}


def test_a_read_before_it_was_sent_is_g1c_realtime() -> None:
    assert named(part(2, wr=[(1, 0)])) == {"G1c-realtime": [[0, 1]]}


def test_an_operation_that_is_not_ok_comes_before_no_other() -> None:
    assert named(part(2, wr=[(1, 0)], failed="0")) == {}


def test_a_cycle_by_process_order_has_its_own_name() -> None:
    found = named(part(3, wr=[(2, 0)], processes="010"))
    assert found == {"G1c-process": [[0, 2]], "G1c-realtime": [[0, 1, 2]]}


def test_two_circles_are_two_components() -> None:
    assert named(part(4, wr=[(0, 1), (1, 0), (2, 3), (3, 2)])) == {"G1c": [[0, 1], [2, 3]]}


@pytest.mark.parametrize(("rw", "wr", "single"), [([(1, 0)], [(0, 1)], True), ([(0, 1), (1, 0)], [], False)])
def test_cycles_with_one_and_two_rw_edges_have_different_names(
    rw: list[Pair], wr: list[Pair], single: bool
) -> None:
    made = part(2, rw=rw, wr=wr)
    graph = next(graph for graph in GRAPHS if graph.name == "G-single")
    (component,) = in_full(made, graph)
    assert bool(cycle_with_one_rw(made, component)) is single


def test_an_example_has_the_steps_of_a_shortest_cycle() -> None:
    made = part(4, wr=[(0, 1), (1, 2), (2, 3), (3, 0), (1, 0)])
    (component,) = in_full(made, graph_of("G1c"))
    assert shortest_cycle(made, component) == [CycleStep(0, 1, WR, 0), CycleStep(1, 0, WR, 4)]


def test_a_path_through_moments_is_one_realtime_step() -> None:
    made = part(3, wr=[(2, 0)])
    (component,) = in_full(made, graph_of("G1c-realtime"))
    assert shortest_cycle(made, component) == [CycleStep(0, 2, REALTIME), CycleStep(2, 0, WR, 0)]


def test_process_order_skips_operations_that_are_not_ok() -> None:
    made = part(3, processes="000", failed="1")
    assert list(zip(*(ends.tolist() for ends in made.edges[PROCESS]), strict=True)) == [(0, 1), (0, 2)]


def test_a_repeated_edge_counts_once() -> None:
    assert named(part(2, wr=[(0, 1), (0, 1), (1, 0), (1, 0)])) == {"G1c": [[0, 1]]}


@pytest.mark.parametrize("step", [1, 3, 1 << 40])
def test_lines_that_lie_close_or_far_apart_have_their_numbers(step: int) -> None:
    lines = 7 + step * np.arange(50)
    vertices = make_finder(lines)
    assert vertices(lines[::-1]).tolist() == list(range(50))[::-1]
    for strange in (6, lines[-1] + 1, 8 if step > 1 else 0):
        assert vertices(np.array([strange, lines[3]])).tolist() == [-1, 3]


def test_intervals_that_overlap_or_touch_are_one() -> None:
    first, last = merge_intervals(np.array([20, 1, 6, 3]), np.array([22, 4, 9, 6]))
    assert (first.tolist(), last.tolist()) == ([1, 20], [9, 22])


def test_an_edge_is_inside_only_if_both_its_ends_are_in_one_interval() -> None:
    spans = make_spans(np.array([1, 20]), np.array([9, 22]), lines_a_group=9)
    edges = Edges(np.array([1, 9, 9, 10, 0, 20]), np.array([9, 1, 20, 10, 5, 22]), np.arange(6))
    kept, group = spans.within(edges)
    assert (kept.record.tolist(), group.tolist()) == ([0, 1, 5], [0, 0, 1])


def external_tables(spark: SparkSession, ops: list[dict[str, object]], micro: pa.Table) -> ExternalTables:
    operations = SparkTable(spark.createDataFrame(pa.Table.from_pylist(ops, OPS)))
    records = SparkTable(spark.createDataFrame(micro))
    with ThreadPoolExecutor(max_workers=1) as beside:
        return make_external(operations, records, count_operations(operations), 1, beside)


def cycles_of(spark: SparkSession, *micro: Row) -> tuple[list[str], Mapping[int, Set[int]]]:
    """The names of the components and the intervals that are too large, if all operations are ok."""
    ops = [
        {"run": 0, "op": op, "process": op, "f": "txn", "outcome": OK, "invoked": op - 1}
        for op in sorted({row["op"] for row in micro})
    ]
    tables = external_tables(spark, ops, micro_table(*micro).drop(["committed"]))
    return [row.anomaly for row in tables.components.collect()], tables.too_large


def circle(one: int, other: int) -> list[Row]:
    """Two operations, each of which reads a record of the other."""
    return [
        send_row(one, one, 0, key=one), poll_row(other, one, 0, key=one),
        send_row(other, other, 0, key=other), poll_row(one, other, 0, key=other),
    ]  # fmt: skip


def test_a_too_large_interval_is_searched_without_rw_edges(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("checkers.histories.graph.LARGEST_LINES", 10)
    # The reader of op 30 lags behind every writer; the other interval is small.
    lagging = [*(send_row(op, op, op) for op in (4, 10, 15, 20)), poll_row(30, 4, 4)]
    assert cycles_of(spark, *circle(5, 6), *lagging, *circle(40, 42)) == (["G1c", "G1c"], {0: {RW}})


def test_a_still_too_large_interval_is_searched_without_ww_edges(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("checkers.histories.graph.LARGEST_LINES", 10)
    backwards = [send_row(30, 30, 0), send_row(4, 4, 1)]
    assert cycles_of(spark, *circle(5, 6), *backwards) == (["G1c"], {0: {RW, WW}})


@pytest.mark.parametrize(("largest", "too_large"), [(11, {}), (10, {0: {RW, WW}})])
def test_an_interval_of_the_largest_size_is_too_large(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, largest: int, too_large: dict[int, set[int]]
) -> None:
    monkeypatch.setattr("checkers.histories.graph.LARGEST_LINES", largest)
    assert cycles_of(spark, *circle(10, 20)) == (["G1c"], too_large)


def test_all_of_an_interval_meets_in_one_task(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("checkers.histories.graph.LINES_A_GROUP", 1)
    circles = [row for op in range(10, 100, 10) for row in circle(op, op + 2)]
    assert cycles_of(spark, *circles) == (["G1c"] * 9, {})


@pytest.mark.parametrize("few", [3, 4, 5])
def test_remarkable_records_do_not_depend_on_their_number(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr("checkers.histories.table.FEW_ROWS", few)
    micro = [send_row(op, op, op, FAIL) for op in (2, 4, 6)]  # a row of each, and one that counts them
    tables = external_tables(spark, [], micro_table(*micro, poll_row(8, 4, 4)).drop(["committed"]))
    assert sorted(tables.steps.toArrow()["op"].to_pylist()) == [2, 4, 6, 8]
    assert [(row.records, row.read) for row in tables.counted.collect()] == [(3, 1)]


def components_with(spark: SparkSession, outcome: int, *ops: int) -> None:
    """Two operations, each of which reads a record of the other. The table of operations has only `ops`."""
    micro = micro_table(
        send_row(5, 1, 0), send_row(6, 2, 1, outcome), poll_row(6, 1, 0), poll_row(5, 2, 1)
    ).drop(["committed"])
    operations = [
        {"run": 0, "op": op, "process": op, "f": "txn", "outcome": OK, "invoked": op - 1} for op in ops
    ]
    _ = external_tables(spark, operations, micro).components


@pytest.mark.parametrize("ops", [(), (5,)])
def test_an_operation_in_only_one_table_fails_the_job(spark: SparkSession, ops: tuple[int, ...]) -> None:
    with pytest.raises(SPARK_ERRORS, match="the table ops has no operation"):
        components_with(spark, OK, *ops)


def test_an_outcome_in_only_one_table_fails_the_job(spark: SparkSession) -> None:
    with pytest.raises(SPARK_ERRORS, match="does not know the outcome of operation 6"):
        components_with(spark, INFO, 5, 6)
