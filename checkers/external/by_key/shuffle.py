"""The shuffle by key, in pieces instead of rows: each task splits its rows into groups of whole keys.

A *piece* holds rows of one group as one binary value. Spark moves a few large values many times faster than it
sorts, writes and reads as many rows.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checkers.external.table import BATCH_ROWS
from harness.history_files.schema import FAIL, MICRO, OK

ROWS = MICRO.append(pa.field("committed", pa.bool_()))
"""`committed`: for a send, its operation must have committed; for a poll, it was not a read of uncommitted
records.
"""
PIECES = pa.schema([("group", pa.int32()), ("rows", pa.binary())])
GROUPS = 512
"""The number of groups: two for each partition of a large shuffle, so that few keys share a group."""
MOST = 50_000_000
"""The largest number of rows for a task. A key is never split, and a row takes about 230 bytes, so this many rows take
12 GB.
"""
Batches = Iterator[pa.RecordBatch]
_KNOWN = pa.array([OK, FAIL], pa.int8())
_SPREAD = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)


def settle(batches: Batches) -> Batches:
    """Yield ROWS, if all operations have a known outcome and read committed records only. Raises ValueError for an
    unknown outcome.
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
    """Yield pieces of rows whose operations all have a known outcome."""
    return deal(settle(batches))


def deal(batches: Batches) -> Batches:
    """Yield pieces of rows: one for each group, for every BATCH_ROWS rows of the task."""
    pending: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        pending.append(batch)
        rows += len(batch)
        if rows >= BATCH_ROWS:
            yield _dealt(pending)
            pending, rows = [], 0
    if rows:
        yield _dealt(pending)


def _dealt(pending: list[pa.RecordBatch]) -> pa.RecordBatch:
    (rows,) = (
        pa.Table.from_batches(pending).combine_chunks().to_batches()
    )  # pyarrow 18 has no `concat_batches`
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
    """Hash by multiplication with odd constants and use the upper bits, so that neighbours are in different
    groups.
    """
    first, second = map(np.uint64, _SPREAD)
    mixed = (key.astype(np.uint64) ^ (run.astype(np.uint64) * first)) * second
    group: np.ndarray = (mixed >> np.uint64(64 - (GROUPS - 1).bit_length())).astype(np.int16)
    return group


def collect_pieces(batches: Batches) -> pa.Table | None:
    """Return the rows of all pieces, or None if there are none. Raises ValueError if they are too many."""
    pieces: list[pa.RecordBatch] = []
    row_count = 0
    for batch in batches:
        for piece in batch["rows"].to_pylist():
            # Copy to bytes: a slice of Spark's buffer may not be aligned, which slows numpy down.
            pieces.append(pa.ipc.read_record_batch(pa.py_buffer(piece), ROWS))
            row_count += len(pieces[-1])
            if row_count > MOST:
                raise ValueError(
                    f"a task would have to hold more than {MOST:,} sends and reads, because all rows of a "
                    "key are checked together: check a shorter part of the history"
                )
    return pa.Table.from_batches(pieces).combine_chunks() if pieces else None
