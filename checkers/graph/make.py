"""The named components of every run's dependency graph: one shared table of a history from elsewhere."""

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.by_key.packs import LINES, open_pack
from checkers.graph.edges import edges_of
from checkers.graph.intervals import Spans, make_spans
from checkers.graph.kernel import FOUND, OPERATION, PIECE, name_components
from harness.history_files.schema import OK, OPEN

Batches = Iterator[pa.RecordBatch]
VERTICES = ("txn", "poll", "send")
LINES_A_GROUP = 1_000_000
"""Of a history with one operation for every two lines: half a million operations are looked at together."""
PIECES = "group int, kind int, src binary, dst binary, third binary, fourth binary"


def make_components(ops: DataFrame, packs: DataFrame, examples: int) -> DataFrame:
    """run, anomaly, position, ops, detail: one row for each component; the first of each have a cycle."""
    intervals = packs.select("low", "high").toArrow()
    spans = make_spans(_joined(intervals["low"]), _joined(intervals["high"]), LINES_A_GROUP)
    if not len(spans.first):
        return packs.sparkSession.createDataFrame([], FOUND)
    vertices = ops.where(F.col("f").isin(*VERTICES) & (F.col("outcome") != OPEN)).select(
        (F.col("run") * LINES + F.col("op")).alias("line"),
        (F.col("run") * LINES + F.col("invoked")).alias("invoked"),
        "process",
        (F.col("outcome") == OK).alias("ok"),
    )
    pieces = packs.mapInArrow(_edge_pieces(spans), PIECES).unionByName(
        vertices.mapInArrow(_operation_pieces(spans), PIECES)
    )
    groups = int(spans.group[-1]) + 1
    return pieces.repartition(groups, "group").mapInArrow(name_components(examples), FOUND)


def count_edges(packs: DataFrame) -> dict[int, int]:
    """How many wr, ww and rw edges there are."""

    def counted(batches: Batches) -> Batches:
        for batch in batches:
            for row in batch.to_pylist():
                made = {kind: len(edges.src) for kind, edges in edges_of(open_pack(row)).items()}
                columns = [pa.array(list(made)), pa.array(list(made.values()))]
                yield pa.RecordBatch.from_arrays(columns, ["kind", "edges"])

    rows = (
        packs.mapInArrow(counted, "kind bigint, edges bigint")
        .groupBy("kind")
        .agg(F.sum("edges").alias("edges"))
    )
    return {row["kind"]: row["edges"] for row in rows.toArrow().to_pylist()}


def _joined(column: pa.ChunkedArray) -> np.ndarray:
    return np.frombuffer(b"".join(column.to_pylist()), np.int64)


def _edge_pieces(spans: Spans) -> Callable[[Batches], Batches]:
    def cut(batches: Batches) -> Batches:
        for batch in batches:
            for row in batch.to_pylist():
                for kind, edges in edges_of(open_pack(row)).items():
                    kept, group = spans.within(edges)
                    reference = (row["id"] << 32) + kept.record.astype(np.int64)
                    yield from _pieces(kind, group, kept.src, kept.dst, reference, None)

    return cut


def _operation_pieces(spans: Spans) -> Callable[[Batches], Batches]:
    def cut(batches: Batches) -> Batches:
        for batch in batches:
            span = spans.span_of(batch["line"].to_numpy())
            kept = np.flatnonzero(span >= 0)
            columns = [batch[name].to_numpy(zero_copy_only=False)[kept] for name in batch.schema.names]
            yield from _pieces(OPERATION, spans.group[span[kept]], *columns)

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
