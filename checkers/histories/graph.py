"""Find the named components of the dependency graph of every run: a shared table of external histories.

Each task finds and names the components of some intervals. It gets whole intervals as rows of PIECE: arrays of
edges and of operations. It returns every component, and a cycle for the first ones of each name and run.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checkers.external_tables import GRAPHS, RW, WORDS, WR, WW, CycleKind
from checkers.findings import FINDING
from checkers.histories.arrays import codes, make_finder
from checkers.histories.components import (
    Component,
    Components,
    CycleStep,
    GraphPart,
    add_orders,
    components,
    cycle_with_one_rw,
    shortest_cycle,
)
from checkers.histories.packs import (
    LINES,
    MergedIntervals,
    backward_spans,
    edges_of,
    make_spans,
    merge_intervals,
    read_packs,
)
from checkers.histories.table import EFFECTIVE, Batches, HistoryTable, collect, union_tables
from harness.record.history_form import OK

OPERATION = 9
PIECE = pa.schema(
    [("group", pa.int32()), ("kind", pa.int32())]
    + [(name, pa.binary()) for name in ("src", "dst", "third", "fourth")]
)
"""For edges: src and dst are lines, third is the pack and record. For operations: src is the line, dst the line of the
invocation, third the process, fourth true if it was ok.
"""
INTERVALS = pa.schema([("low", pa.binary()), ("high", pa.binary())])
MEMBERS = 100
NO_OPERATION = "of history {} the table ops has no operation {}, though the table micro has"
Row = dict[str, Any]


def name_components(examples: int) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function that Spark maps over a partition's batches."""

    def named(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        arrays: dict[tuple[int, str], list[bytes]] = defaultdict(list)
        for batch in batches:
            for piece in batch.to_pylist():
                for name in ("src", "dst", "third", "fourth"):
                    if piece[name] is not None:
                        arrays[piece["kind"], name].append(piece[name])
        if (OPERATION, "src") in arrays:
            yield from _findings(_TaskGraph(arrays), examples)
        elif arrays:
            first = np.frombuffer(next(iter(arrays.values()))[0], np.int64)[0]
            raise ValueError(NO_OPERATION.format(*divmod(int(first), LINES)))

    return named


class _TaskGraph:
    """The graph that a task checks. Vertices are the operations, sorted by line."""

    def __init__(self, arrays: dict[tuple[int, str], list[bytes]]) -> None:
        def join_arrays(kind: int, name: str, form: type = np.int64) -> np.ndarray:
            return np.frombuffer(b"".join(arrays.pop((kind, name), [])), form)

        def vertices(kind: int, name: str) -> np.ndarray:
            wanted = join_arrays(kind, name)
            positions = vertex(wanted)
            if len(unknown_lines := wanted[positions < 0]):
                raise ValueError(NO_OPERATION.format(*divmod(int(unknown_lines[0]), LINES)))
            return positions

        lines, invoked = join_arrays(OPERATION, "src"), join_arrays(OPERATION, "dst")
        process, ok = join_arrays(OPERATION, "third"), join_arrays(OPERATION, "fourth", bool)
        order = np.argsort(lines)
        self.lines = lines[order]
        self.part = GraphPart(len(lines), {})
        vertex = make_finder(self.lines)
        for kind in (WR, WW, RW):
            self.part.edges[kind] = vertices(kind, "src"), vertices(kind, "dst")
            self.part.references[kind] = join_arrays(kind, "third")
        processes = codes(process[order], self.lines // LINES)
        add_orders(self.part, self.lines, invoked[order], processes, ok[order])

    def as_json(self, step: CycleStep) -> dict[str, Any]:
        """Return a step of a cycle, with the reference of its record in the packs."""
        ends = {"from": step.src, "to": step.dst}
        body: dict[str, Any] = {end: {"op": int(self.lines[at] % LINES)} for end, at in ends.items()}
        if step.kind in self.part.references:
            body["reference"] = int(self.part.references[step.kind][step.at])
        return {"kind": WORDS[step.kind], **body}


def _findings(task_graph: _TaskGraph, examples: int) -> Iterator[pa.RecordBatch]:
    for graph in GRAPHS:
        if graph.single is False:
            continue  # the graph with the same edges and single=True decides between the two names
        found_components = components(task_graph.part, graph)
        if not len(found_components):
            continue
        runs = task_graph.lines[found_components.first] // LINES
        # Lines are sorted by run, so this numbers the components within their run.
        turn = np.arange(len(runs)) - np.searchsorted(runs, runs)
        if graph.single is None:
            shown = np.flatnonzero(turn < examples)
            rest = np.flatnonzero(turn >= examples)
            cycles = [
                (graph.name, component, shortest_cycle(task_graph.part, component))
                for component in found_components.some(shown)
            ]
            yield pa.RecordBatch.from_pylist([_row(task_graph, *cycle) for cycle in cycles], FINDING)
            yield _counted(task_graph, found_components, rest, runs)
        else:
            all_components = found_components.some(np.arange(len(found_components)))
            rows = [
                _row(
                    task_graph,
                    *_single(task_graph.part, graph, component, wanted=bool(turn[number] < examples)),
                )
                for number, component in enumerate(all_components)
            ]
            yield pa.RecordBatch.from_pylist(rows, FINDING)


def _single(
    part: GraphPart, graph: CycleKind, component: Component, *, wanted: bool
) -> tuple[str, Component, list[CycleStep]]:
    """Return the name of the cycle (by whether one rw edge suffices for it), the component, and a short cycle."""
    steps = cycle_with_one_rw(part, component)
    if steps:
        return graph.name, component, steps
    twin = next(g for g in GRAPHS if g.kinds == graph.kinds and g.single is False)
    return twin.name, component, shortest_cycle(part, component) if wanted else []


def _row(task_graph: _TaskGraph, name: str, component: Component, steps: list[CycleStep]) -> Row:
    lines = task_graph.lines[component.vertices[:MEMBERS]]
    members = (lines % LINES).tolist()
    body = {"operations": len(component.vertices), "cycle": [task_graph.as_json(step) for step in steps]}
    return {
        "run": int(lines[0] // LINES), "anomaly": name, "absence": False,
        "position": members[:1], "ops": members, "detail": json.dumps(body),
    }  # fmt: skip


def _counted(
    task_graph: _TaskGraph, found_components: Components, rest: np.ndarray, runs: np.ndarray
) -> pa.RecordBatch:
    """Return the findings for components that are counted but not shown."""
    ops = pa.ListArray.from_arrays(
        np.arange(len(rest) + 1, dtype=np.int32), task_graph.lines[found_components.first[rest]] % LINES
    )
    constants = {"anomaly": found_components.graph.name, "absence": False, "detail": '{"cycle": []}'}
    repeated = {name: pa.repeat(pa.scalar(value), len(rest)) for name, value in constants.items()}
    columns = {"run": pa.array(runs[rest]), "position": ops, "ops": ops, **repeated}
    return pa.RecordBatch.from_arrays([columns[name] for name in FINDING.names], schema=FINDING)


LINES_A_GROUP = 1_000_000
"""In a history with one operation for every two lines, a task checks half a million operations together."""
LARGEST_LINES = 4_000_000
"""Two million operations with about twenty million edges: the largest interval that a task can hold in 2 GB."""


def make_components(
    ops: HistoryTable, packs: HistoryTable, examples: int
) -> tuple[HistoryTable | None, dict[int, frozenset[int]]]:
    """Return all components as `FINDING`, and by run the kinds of edges that were left out of a part of the graph.

    The first components of each name and run have a cycle. None: there are no components.
    """
    spans, too_large = _find_spans(packs)
    if not len(spans.first):
        return None, too_large
    pieces = union_tables(
        packs.in_tasks(_edge_pieces(spans), PIECE),
        ops.in_tasks(_operation_pieces(spans), PIECE, ["run", "op", "invoked", "process", "outcome", "f"]),
    )
    components = pieces.by_group(name_components(examples), FINDING, int(spans.group[-1]) + 1)
    return components, too_large


def _find_spans(packs: HistoryTable) -> tuple[MergedIntervals, dict[int, frozenset[int]]]:
    """Return the intervals, and by run the kinds of edges that were left out of an interval that was too large.

    If readers lag behind, every rw edge goes back, and the whole history can be one interval. One task must hold it. If
    it is too large, the smaller intervals of its wr and ww edges are checked. If one of these is too large, the
    intervals of the wr edges alone are checked.
    """
    spans_of_packs = collect(packs, _spans_of_packs, INTERVALS)
    first, last = merge_intervals(_joined(spans_of_packs["low"]), _joined(spans_of_packs["high"]))
    left_out: dict[int, frozenset[int]] = {}
    for kind, remaining in ((RW, {WR, WW}), (WW, {WR})):
        large = last - first >= LARGEST_LINES
        if not large.any():
            break
        for run in np.unique(first[large] // LINES).tolist():
            left_out[run] = left_out.get(run, frozenset()) | {kind}
        spans_of_packs = collect(packs, _intervals(frozenset(remaining)), INTERVALS)
        low, high = merge_intervals(_joined(spans_of_packs["low"]), _joined(spans_of_packs["high"]))
        large_intervals = MergedIntervals(first[large], last[large], np.zeros(int(large.sum()), np.int32))
        inside = large_intervals.span_of(low) >= 0
        first, last = (
            np.concatenate([first[~large], low[inside]]),
            np.concatenate([last[~large], high[inside]]),
        )
        order = np.argsort(first)
        first, last = first[order], last[order]
    return make_spans(first, last, LINES_A_GROUP), left_out


def _spans_of_packs(batches: Batches) -> Batches:
    for batch in batches:
        yield batch.select(INTERVALS.names)


def _intervals(kinds: frozenset[int]) -> Callable[[Batches], Batches]:
    def of_packs(batches: Batches) -> Batches:
        for _, pack in read_packs(batches):
            low, high = merge_intervals(*backward_spans(edges_of(pack, kinds)))
            yield pa.RecordBatch.from_pydict({"low": [low.tobytes()], "high": [high.tobytes()]}, INTERVALS)

    return of_packs


def _joined(column: pa.ChunkedArray) -> np.ndarray:
    return np.frombuffer(b"".join(column.to_pylist()), np.int64)


def _edge_pieces(spans: MergedIntervals) -> Callable[[Batches], Batches]:
    def cut(batches: Batches) -> Batches:
        for number, pack in read_packs(batches):
            for kind, edges in edges_of(pack).items():
                inside, group = spans.within(edges)
                reference = (number << 32) + inside.record.astype(np.int64)
                yield from _pieces(kind, group, inside.src, inside.dst, reference, None)

    return cut


def _operation_pieces(spans: MergedIntervals) -> Callable[[Batches], Batches]:
    def cut(batches: Batches) -> Batches:
        for batch in batches:
            ops = batch.filter(pc.is_in(batch["f"], EFFECTIVE))
            run, op, invoked, process, outcome = (column.to_numpy() for column in ops.columns[:5])
            line = run * LINES + op
            span = spans.span_of(line)
            inside = np.flatnonzero(span >= 0)
            columns = [line, run * LINES + invoked, process, outcome == OK]
            yield from _pieces(OPERATION, spans.group[span[inside]], *(column[inside] for column in columns))

    return cut


def _pieces(kind: int, group: np.ndarray, *columns: np.ndarray | None) -> Batches:
    """Yield a row for each group."""
    order = np.argsort(group, kind="stable")
    ends = np.flatnonzero(np.diff(group[order], append=-1)) + 1
    begin = 0
    for end in ends.tolist():
        rows = order[begin:end]
        begin = end
        cut = [None if column is None else column[rows].tobytes() for column in columns]
        row = dict(zip(PIECE.names, [int(group[rows[0]]), kind, *cut], strict=True))
        yield pa.RecordBatch.from_pylist([row], PIECE)
