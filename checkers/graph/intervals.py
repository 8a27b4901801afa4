"""Where cycles can be: the method that needs no iteration.

Order the operations by their numbers. An edge that goes back in that order spans an interval; overlapping
intervals are merged. Every cycle lies inside one merged interval, whatever the order chosen, because
each step of the order that the cycle spans must be crossed backwards by one of its edges. So the edges
inside one interval are all that has to be looked at, and intervals know nothing of each other.
"""

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

Batches = Iterator[pa.RecordBatch]
Spans = dict[int, tuple[np.ndarray, np.ndarray]]
"""By run: the first and the last operation of each interval, in order."""


def find_spans(edges: DataFrame) -> Spans:
    """The merged intervals of the edges that go back; one sort of at most one row an operation."""
    reach = edges.where("src > dst").groupBy("run", "dst").agg(F.max("src").alias("src"))
    merged = (
        reach.repartition("run")
        .sortWithinPartitions("run", "dst")
        .mapInArrow(_merge, "run bigint, first bigint, last bigint")
        .toArrow()
    )
    spans: Spans = {}
    runs = merged["run"].to_numpy()
    for run in np.unique(runs):
        here = runs == run
        first, last = merged["first"].to_numpy()[here], merged["last"].to_numpy()[here]
        order = np.argsort(first)
        spans[int(run)] = (first[order], last[order])
    return spans


def _merge(batches: Batches) -> Batches:
    """Merge intervals that come sorted by run and beginning; those that touch in an operation are one."""
    run: int | None = None
    first = last = 0
    for batch in batches:
        done: list[tuple[int, int, int]] = []
        for here, start, end in zip(
            *(batch[name].to_pylist() for name in ("run", "dst", "src")), strict=True
        ):
            if here == run and start <= last:
                last = max(last, end)
                continue
            if run is not None:
                done.append((run, first, last))
            run, first, last = here, start, end
        yield _spans_batch(done)
    yield _spans_batch([] if run is None else [(run, first, last)])


def _spans_batch(rows: list[tuple[int, int, int]]) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    return pa.RecordBatch.from_arrays(
        [pa.array(column, pa.int64()) for column in columns], names=["run", "first", "last"]
    )


def within(frame: DataFrame, spans: Spans, low: str, high: str) -> DataFrame:
    """The rows of which both ends lie in one interval, with that interval's number: `span`."""
    schema = ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in frame.schema.fields)
    return frame.mapInArrow(_filter(spans, low, high), f"{schema}, span bigint")


def _filter(spans: Spans, low: str, high: str) -> Callable[[Batches], Batches]:
    nothing = (np.empty(0, np.int64), np.empty(0, np.int64))

    def kept(batches: Batches) -> Batches:
        for batch in batches:
            runs = batch["run"].to_numpy()
            ends = (batch[low].to_numpy(), batch[high].to_numpy())
            span = np.full(len(runs), -1, np.int64)
            for run in np.unique(runs):
                first, last = spans.get(int(run), nothing)
                here = np.flatnonzero(runs == run)
                if len(first) and len(here):
                    span[here] = _span_of(first, last, ends[0][here], ends[1][here])
            inside = pa.array(span >= 0)
            columns = [*batch.columns, pa.array(span)]
            yield pa.RecordBatch.from_arrays(columns, names=[*batch.schema.names, "span"]).filter(inside)

    return kept


def _span_of(first: np.ndarray, last: np.ndarray, one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The number of the interval that holds both; -1: none does."""
    at = np.searchsorted(first, one, side="right") - 1
    there = np.searchsorted(first, other, side="right") - 1
    safe = np.maximum(at, 0)
    inside = (at >= 0) & (at == there) & (one <= last[safe]) & (other <= last[safe])
    return np.where(inside, at, -1)
