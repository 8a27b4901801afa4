"""Find and name the components of intervals. Each Spark task does this for some intervals.

A task gets whole intervals as rows of PIECE: arrays of edges and of operations. It returns every component, and a
cycle for the first ones of each name and run.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from checkers.external.by_key.arrays import codes, make_finder
from checkers.external.by_key.version_log import LINES
from checkers.external.graph.components import Component, Components, GraphPart, add_orders, components
from checkers.external.graph.cycles import CycleStep, cycle_with_one_rw, shortest_cycle
from checkers.external.graph.names import GRAPHS, RW, WORDS, WR, WW, CycleKind
from checkers.findings.form import FINDING

OPERATION = 9
PIECE = pa.schema(
    [("group", pa.int32()), ("kind", pa.int32())]
    + [(name, pa.binary()) for name in ("src", "dst", "third", "fourth")]
)
"""For edges: src and dst are lines, third is the pack and record. For operations: src is the line, dst the line of the
invocation, third the process, fourth true if it was ok.
"""
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
            pieces = (np.frombuffer(piece, np.int64) for piece in arrays.pop((kind, name), []))
            return np.concatenate([np.empty(0, np.int32), *map(vertices_of, pieces)])

        def vertices_of(wanted: np.ndarray) -> np.ndarray:
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
