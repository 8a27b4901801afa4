"""From the edges and operations of intervals to named components: what each of Spark's tasks does.

A task gets whole intervals of whole runs, as rows of COLUMNS: edges, and operations (kind OPERATION). It
tells every component, and of the first of each name also a cycle, step by step.
"""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from checkers.graph.components import Component, Part, add_orders, components
from checkers.graph.cycles import Step, cycle_with_one_rw, shortest_cycle
from checkers.graph.names import GRAPHS, RW, WORDS, WR, WW, Graph
from harness.history_files.schema import OK

OPERATION = 9
COLUMNS = ("run", "span", "kind", "src", "dst", "key", "value", "following")
"""Of an operation: src its number, dst the line of its invocation, key its process, value its outcome."""
FOUND = "run bigint, anomaly string, position array<bigint>, ops array<bigint>, detail string"
MEMBERS = 100
LINES = 1 << 40
"""More than a history has lines."""


def name_components(examples: int) -> Any:
    """The function that Spark maps over a partition's batches."""

    def named(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        table = pa.Table.from_batches(list(batches))
        if table.num_rows:
            yield _batch(list(_found(_Rows(table), examples)))

    return named


class _Rows:
    """The rows of a partition as arrays; vertices are the operations, sorted by run and number."""

    def __init__(self, table: pa.Table) -> None:
        self.kind = table["kind"].to_numpy()
        self.columns = {
            name: table[name].fill_null(0).to_numpy()
            for name in ("run", "span", "src", "dst", "key", "value", "following")
        }
        _, run = np.unique(self.columns["run"], return_inverse=True)
        self._ahead = run.astype(np.int64) * LINES  # makes one sortable number of a run and a line in it
        operations = np.flatnonzero(self.kind == OPERATION)
        lines = (self.columns["src"] + self._ahead)[operations]
        order = np.argsort(lines, kind="stable")
        self.vertices, self._lines = operations[order], lines[order]
        self.graph = self._part()
        self._by_ends: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def _part(self) -> Part:
        """The graph of these rows."""
        part = Part(len(self.vertices), {})
        columns, vertices, ahead = self.columns, self.vertices, self._ahead
        for kind in (WR, WW, RW):
            rows = np.flatnonzero(self.kind == kind)
            src, dst = ((columns[end] + ahead)[rows] for end in ("src", "dst"))
            part.edges[kind] = np.searchsorted(self._lines, src), np.searchsorted(self._lines, dst)
        add_orders(
            part,
            line=self._lines,
            invoked=(columns["dst"] + ahead)[vertices],
            process=columns["key"][vertices],
            ok=columns["value"][vertices] == OK,
            span=columns["span"][vertices] + ahead[vertices],
        )
        return part

    def evidence(self, step: Step) -> dict[str, Any]:
        """A step with the record that it goes by."""
        c, src, dst = self.columns, self.vertices[step.src], self.vertices[step.dst]
        told: dict[str, Any] = {
            "kind": WORDS[step.kind],
            "from": {"op": int(c["src"][src])},
            "to": {"op": int(c["src"][dst])},
        }
        if step.kind in (WR, WW, RW):
            rows, ends = self._sorted(step.kind)
            at = rows[np.searchsorted(ends, step.src * len(self.vertices) + step.dst)]
            told["record"] = {"key": int(c["key"][at]), "value": int(c["value"][at])}
            if step.kind != WR:
                told["following"] = {"key": int(c["key"][at]), "value": int(c["following"][at])}
        return told

    def _sorted(self, kind: int) -> tuple[np.ndarray, np.ndarray]:
        """The rows of the edges of a kind, by their two vertices, and those as one number."""
        if kind not in self._by_ends:
            rows = np.flatnonzero(self.kind == kind)
            src, dst = self.graph.edges[kind]
            ends = src * len(self.vertices) + dst
            order = np.argsort(ends, kind="stable")
            self._by_ends[kind] = rows[order], ends[order]
        return self._by_ends[kind]


def _found(rows: _Rows, examples: int) -> Iterator[tuple[int, str, list[int], list[int], str]]:
    shown: Counter[tuple[int, str]] = Counter()
    ops = rows.columns["src"][rows.vertices]
    runs = rows.columns["run"][rows.vertices]
    for graph in GRAPHS:
        if graph.single is False:
            continue  # the twin of one with the same edges, which tells the two apart
        for component in components(rows.graph, graph):
            run = int(runs[component.vertices[0]])
            detailed = shown[run, graph.name] < examples
            name, steps = _cycle(graph, component, rows.graph.count, wanted=detailed)
            shown[run, graph.name] += 1
            members = ops[component.vertices]
            body = {
                "operations": len(members),
                "cycle": [rows.evidence(step) for step in steps] if detailed else [],
            }
            yield run, name, [int(members[0])], members[:MEMBERS].tolist(), json.dumps(body)


def _cycle(graph: Graph, component: Component, count: int, *, wanted: bool) -> tuple[str, list[Step]]:
    """The component's name, and a short cycle in it."""
    if graph.single is None:
        return graph.name, shortest_cycle(component, count) if wanted else []
    steps = cycle_with_one_rw(component, count)
    if steps:
        return graph.name, steps
    twin = next(g for g in GRAPHS if g.kinds == graph.kinds and g.single is False)
    return twin.name, shortest_cycle(component, count) if wanted else []


def _batch(rows: list[tuple[int, str, list[int], list[int], str]]) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True)) or [(), (), (), (), ()]
    types = (pa.int64(), pa.string(), pa.list_(pa.int64()), pa.list_(pa.int64()), pa.string())
    names = ["run", "anomaly", "position", "ops", "detail"]
    arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=names)
