"""The shuffle by key, of pieces rather than rows: each task deals its rows into groups of whole keys.

A *piece* holds rows of one group as one binary value. Spark moves a few large values many times faster
than it sorts, writes and reads as many rows.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checkers.external.table import HELD
from harness.history_files.schema import FAIL, MICRO, OK

ROWS = MICRO.append(pa.field("committed", pa.bool_()))
"""What is dealt out. `committed`: of a record sent, its operation must have committed; of one that was given,
it should have been committed by then: it was not asked for with `read_uncommitted`.
"""
PIECES = pa.schema([("group", pa.int32()), ("rows", pa.binary())])
GROUPS = 512
"""Two for every partition of a large shuffle, so that keys that share one are few."""
MOST = 50_000_000
"""Rows that a task takes. A key is never shared out, and a row takes some 230 bytes: so many 12 GB."""
Batches = Iterator[pa.RecordBatch]
_KNOWN = pa.array([OK, FAIL], pa.int8())
_SPREAD = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)


def settle(batches: Batches) -> Batches:
    """ROWS of rows whose operations are all said to have a known outcome, and to have been promised what is
    committed; raises if an outcome is not known.
    """
    for rows in batches:
        unknown = pc.and_(pc.invert(rows["polled"]), pc.invert(pc.is_in(rows["outcome"], _KNOWN)))
        if pc.any(unknown).as_py():
            run, op = (rows[name].filter(unknown)[0] for name in ("run", "op"))
            raise ValueError(
                f"of history {run} the table micro does not know the outcome of operation {op}, though the "
                "table ops does"
            )
        committed = pc.or_(rows["polled"], pc.equal(rows["outcome"], OK))
        yield pa.RecordBatch.from_arrays([*rows.columns, committed], schema=ROWS)


def deal_settled(batches: Batches) -> Batches:
    """Pieces of rows whose operations all have a known outcome."""
    return deal(settle(batches))


def deal(batches: Batches) -> Batches:
    """Pieces of rows: of each group one, or one for every HELD rows of the task."""
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        held.append(batch)
        rows += len(batch)
        if rows >= HELD:
            yield _dealt(held)
            held, rows = [], 0
    if rows:
        yield _dealt(held)


def _dealt(held: list[pa.RecordBatch]) -> pa.RecordBatch:
    (rows,) = pa.Table.from_batches(held).combine_chunks().to_batches()  # pyarrow 18 has no `concat_batches`
    group = _group_of(rows["run"].to_numpy(), rows["key"].to_numpy())
    order = np.argsort(group, kind="stable")
    rows, group = rows.take(pa.array(order)), group[order]
    starts = np.flatnonzero(np.diff(group, prepend=-1))
    lengths = np.diff(starts, append=len(group))
    pieces = [
        rows.slice(*span).serialize().to_pybytes()
        for span in zip(starts.tolist(), lengths.tolist(), strict=True)
    ]
    return pa.RecordBatch.from_arrays([pa.array(group[starts], pa.int32()), pa.array(pieces)], schema=PIECES)


def _group_of(run: np.ndarray, key: np.ndarray) -> np.ndarray:
    """Multiplied by odd constants, the upper bits: neighbours fall into different groups."""
    first, second = map(np.uint64, _SPREAD)
    mixed = (key.astype(np.uint64) ^ (run.astype(np.uint64) * first)) * second
    group: np.ndarray = (mixed >> np.uint64(64 - (GROUPS - 1).bit_length())).astype(np.int16)
    return group


def collected(batches: Batches) -> pa.Table | None:
    """The rows of all pieces; None: there is none; raises if they are too many."""
    pieces: list[pa.RecordBatch] = []
    many = 0
    for batch in batches:
        for piece in batch["rows"].to_pylist():
            # As bytes: what is cut out of Spark's buffer need not lie where numpy reads it fast.
            pieces.append(pa.ipc.read_record_batch(pa.py_buffer(piece), ROWS))
            many += len(pieces[-1])
            if many > MOST:
                raise ValueError(
                    f"a task would have to hold more than {MOST:,} records sent or given, for all of a key "
                    "are judged together: judge a part of the history that has fewer"
                )
    return pa.Table.from_batches(pieces).combine_chunks() if pieces else None
