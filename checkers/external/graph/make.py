"""Find the named components of the dependency graph of every run: a shared table of external histories."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from checkers.external.by_key.version_log import LINES, read_packs
from checkers.external.graph.edges import edges_of
from checkers.external.graph.intervals import MergedIntervals, backward_spans, make_spans, merge_intervals
from checkers.external.graph.kernel import OPERATION, PIECE, name_components
from checkers.external.graph.names import RW, WR, WW
from checkers.external.operations import EFFECTIVE
from checkers.external.table import Batches, HistoryTable
from checkers.findings.form import FINDING
from harness.history_files.schema import OK

LINES_A_GROUP = 1_000_000
"""In a history with one operation for every two lines, a task checks half a million operations together."""
LARGEST_LINES = 4_000_000
"""Two million operations with about twenty million edges: the largest interval that a task can hold in 2 GB."""


@dataclass(frozen=True)
class Cycles:
    """The components, and where a graph could not be checked in full."""

    components: DataFrame  # `FINDING`: one row for each component
    too_large: Mapping[int, frozenset[int]]  # by run: the kinds of edges that were left out of an interval


def make_components(ops: HistoryTable, packs: DataFrame, examples: int) -> Cycles:
    """Return all components. The first ones of each name and run have a cycle."""
    spans, too_large = _find_spans(packs)
    if not len(spans.first):
        return Cycles(packs.sparkSession.createDataFrame(FINDING.empty_table()), too_large)
    pieces = packs.mapInArrow(_edge_pieces(spans), from_arrow_schema(PIECE)).unionByName(
        ops.in_tasks(_operation_pieces(spans), PIECE, ["run", "op", "invoked", "process", "outcome", "f"])
    )
    groups = int(spans.group[-1]) + 1
    components = pieces.repartition(groups, "group").mapInArrow(
        name_components(examples), from_arrow_schema(FINDING)
    )
    return Cycles(components, too_large)


def _find_spans(packs: DataFrame) -> tuple[MergedIntervals, dict[int, frozenset[int]]]:
    """Return the intervals, and by run the kinds of edges that were left out of an interval that was too large.

    If readers lag behind, every rw edge goes back, and the whole history can be one interval. One task must hold it. If
    it is too large, the smaller intervals of its wr and ww edges are checked. If one of these is too large, the
    intervals of the wr edges alone are checked.
    """
    spans_of_packs = packs.select("low", "high").toArrow()
    first, last = merge_intervals(_joined(spans_of_packs["low"]), _joined(spans_of_packs["high"]))
    left_out: dict[int, frozenset[int]] = {}
    for kind, remaining in ((RW, {WR, WW}), (WW, {WR})):
        large = last - first >= LARGEST_LINES
        if not large.any():
            break
        for run in np.unique(first[large] // LINES).tolist():
            left_out[run] = left_out.get(run, frozenset()) | {kind}
        spans_of_packs = packs.mapInArrow(
            _intervals(frozenset(remaining)), "low binary, high binary"
        ).toArrow()
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


def _intervals(kinds: frozenset[int]) -> Callable[[Batches], Batches]:
    def of_packs(batches: Batches) -> Batches:
        for _, pack in read_packs(batches):
            low, high = merge_intervals(*backward_spans(edges_of(pack, kinds)))
            yield pa.RecordBatch.from_pydict({"low": [low.tobytes()], "high": [high.tobytes()]})

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
