"""The named components of every run's dependency graph: one shared table of an external history."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from checkers.external.by_key.version_log import LINES, read_packs
from checkers.external.graph.edges import edges_of
from checkers.external.graph.intervals import MergedIntervals, make_spans, merged, reaches
from checkers.external.graph.kernel import OPERATION, PIECE, name_components
from checkers.external.graph.names import RW, WR, WW
from checkers.external.operations import EFFECTIVE
from checkers.external.table import Batches, HistoryTable
from checkers.findings.form import FINDING
from harness.history_files.schema import OK

LINES_A_GROUP = 1_000_000
"""Of a history with one operation for every two lines: half a million operations are looked at together."""
LARGEST_LINES = 4_000_000
"""Two million operations, with some twenty million edges: what a task can hold in 2 GB."""


@dataclass(frozen=True)
class Cycles:
    """What was found in the dependency graphs, and where not all of a graph could be looked at."""

    components: DataFrame  # `FINDING`: one row for each
    too_large: Mapping[int, frozenset[int]]  # by run: kinds of edges that were left out of some interval


def make_components(ops: HistoryTable, packs: DataFrame, examples: int) -> Cycles:
    """All components; the first of each name and run have a cycle."""
    spans, too_large = _find_spans(packs)
    if not len(spans.first):
        return Cycles(packs.sparkSession.createDataFrame(FINDING.empty_table()), too_large)
    pieces = packs.mapInArrow(_edge_pieces(spans), from_arrow_schema(PIECE)).unionByName(
        ops.in_tasks(_operation_pieces(spans), PIECE, ["run", "op", "invoked", "process", "outcome", "f"])
    )
    groups = int(spans.group[-1]) + 1
    found = pieces.repartition(groups, "group").mapInArrow(
        name_components(examples), from_arrow_schema(FINDING)
    )
    return Cycles(found, too_large)


def _find_spans(packs: DataFrame) -> tuple[MergedIntervals, dict[int, frozenset[int]]]:
    """The intervals, and the kinds of edges that one of a run was too large for.

    Readers that lag behind make every rw edge go back, so that all of a history is one interval, which one
    task has to hold. If that is too much, the smaller intervals of wr and ww edges in it are looked at, and
    if one of these is, those of wr edges alone.
    """
    told = packs.select("low", "high").toArrow()
    first, last = merged(_joined(told["low"]), _joined(told["high"]))
    left_out: dict[int, frozenset[int]] = {}
    for kind, kept in ((RW, {WR, WW}), (WW, {WR})):
        large = last - first >= LARGEST_LINES
        if not large.any():
            break
        for run in np.unique(first[large] // LINES).tolist():
            left_out[run] = left_out.get(run, frozenset()) | {kind}
        told = packs.mapInArrow(_intervals(frozenset(kept)), "low binary, high binary").toArrow()
        low, high = merged(_joined(told["low"]), _joined(told["high"]))
        whole = MergedIntervals(first[large], last[large], np.zeros(int(large.sum()), np.int32))
        inside = whole.span_of(low) >= 0
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
            low, high = merged(*reaches(edges_of(pack, kinds)))
            yield pa.RecordBatch.from_pydict({"low": [low.tobytes()], "high": [high.tobytes()]})

    return of_packs


def _joined(column: pa.ChunkedArray) -> np.ndarray:
    return np.frombuffer(b"".join(column.to_pylist()), np.int64)


def _edge_pieces(spans: MergedIntervals) -> Callable[[Batches], Batches]:
    def cut(batches: Batches) -> Batches:
        for number, pack in read_packs(batches):
            for kind, edges in edges_of(pack).items():
                kept, group = spans.within(edges)
                reference = (number << 32) + kept.record.astype(np.int64)
                yield from _pieces(kind, group, kept.src, kept.dst, reference, None)

    return cut


def _operation_pieces(spans: MergedIntervals) -> Callable[[Batches], Batches]:
    def cut(batches: Batches) -> Batches:
        for batch in batches:
            ops = batch.filter(pc.is_in(batch["f"], EFFECTIVE))
            run, op, invoked, process, outcome = (column.to_numpy() for column in ops.columns[:5])
            line = run * LINES + op
            span = spans.span_of(line)
            kept = np.flatnonzero(span >= 0)
            columns = [line, run * LINES + invoked, process, outcome == OK]
            yield from _pieces(OPERATION, spans.group[span[kept]], *(column[kept] for column in columns))

    return cut


def _pieces(kind: int, group: np.ndarray, *columns: np.ndarray | None) -> Batches:
    """A row for each group."""
    order = np.argsort(group, kind="stable")
    ends = np.flatnonzero(np.diff(group[order], append=-1)) + 1
    begin = 0
    for end in ends.tolist():
        chosen = order[begin:end]
        begin = end
        cut = [None if column is None else column[chosen].tobytes() for column in columns]
        row = dict(zip(PIECE.names, [int(group[chosen[0]]), kind, *cut], strict=True))
        yield pa.RecordBatch.from_pylist([row], PIECE)
