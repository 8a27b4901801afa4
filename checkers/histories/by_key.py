"""The one shuffle by key, and the computation of a task that then has all rows of its keys.

The shuffle moves pieces instead of rows: each task splits its rows into groups of whole keys. A *piece* holds rows of
one group as one binary value. Spark moves a few large values many times faster than it sorts, writes and reads as many
rows, and a file of them is read without a copy. `by_key` returns the unusual rows, and packs of all rows.
"""

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checkers.histories.packs import (
    LINES,
    PACK,
    PARTS,
    backward_spans,
    cut,
    edges_of,
    make_pack,
    merge_intervals,
)
from checkers.histories.records import (
    NONE,
    OperationRows,
    RecordRows,
    find_jumps,
    make_records,
    writers_if_all_lost,
)
from checkers.histories.table import BATCH_ROWS
from harness.record.history_form import FAIL, INFO, MICRO, OK, OPEN

ROWS = MICRO.append(pa.field("committed", pa.bool_()))
"""`committed`: for a send, its operation must have committed; for a poll, it was not a read of uncommitted
records.
"""
PIECES = pa.schema([("group", pa.int32()), ("rows", pa.binary())])
OPERATION = pa.schema([MICRO.field(name) for name in ("run", "op")])
RECORD_OPERATION = pa.schema([MICRO.field(name) for name in ("run", "key", "value", "op")])
GROUPS = 512
"""The number of groups: two for each partition of a large shuffle, so that few keys share a group."""
MOST = 50_000_000
"""The largest number of rows for a task. A key is never split, and a row takes about 230 bytes, so this many rows take
12 GB.
"""
Batches = Iterator[pa.RecordBatch]
_KNOWN = pa.array([OK, FAIL], pa.int8())
_SPREAD = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)


def make_deal(proven: pa.Table | None, uncommitted: pa.Table | None) -> Callable[[Batches], Batches]:
    """Return the function that makes pieces of MICRO.

    Args:
        proven: run and op of operations without a known outcome of which a value was ok-read. None: the outcome of
            every operation is known. Then a send without a known outcome raises `ValueError`.
        uncommitted: run and op of operations that read uncommitted records. None: there are none.
    """

    def act(batches: Batches) -> Batches:
        is_proven, is_uncommitted = map(_is_one_of, (proven, uncommitted))
        return deal(_with_committed(rows, proven is None, is_proven, is_uncommitted) for rows in batches)

    return act


def _lines_of(operations: pa.RecordBatch | pa.Table) -> np.ndarray:
    lines: np.ndarray = operations["run"].to_numpy() * LINES + operations["op"].to_numpy()
    return lines


RowTest = Callable[[pa.RecordBatch], pa.Array]


def _is_one_of(operations: pa.Table | None) -> RowTest:
    """Return a function that says for each row of a batch whether its operation is one of these."""
    if operations is None or not len(operations):
        return lambda rows: pa.repeat(pa.scalar(False), len(rows))
    lines = pa.array(np.unique(_lines_of(operations)))
    return lambda rows: pc.is_in(pa.array(_lines_of(rows)), lines)


def _with_committed(
    rows: pa.RecordBatch, certain: bool, is_proven: RowTest, is_uncommitted: RowTest
) -> pa.RecordBatch:
    polled = rows["polled"]
    if certain:
        unknown = pc.and_(pc.invert(polled), pc.invert(pc.is_in(rows["outcome"], _KNOWN)))
        if pc.any(unknown).as_py():
            run, op = (rows[name].filter(unknown)[0] for name in ("run", "op"))
            raise ValueError(
                f"of history {run} the table micro does not know the outcome of operation {op}, though the "
                "table ops does"
            )
    sent = pc.or_(pc.equal(rows["outcome"], OK), is_proven(rows))
    committed = pc.if_else(polled, pc.invert(is_uncommitted(rows)), sent)
    return pa.RecordBatch.from_arrays([*rows.columns, committed], schema=ROWS)


def sends_in_doubt(batches: Batches) -> Batches:
    """Yield RECORD_OPERATION for each send of an operation without a known outcome."""
    for rows in batches:
        unknown = pc.and_(pc.invert(rows["polled"]), pc.invert(pc.is_in(rows["outcome"], _KNOWN)))
        yield rows.filter(unknown).select(RECORD_OPERATION.names)


def make_prove(doubtful: pa.Table, uncommitted: pa.Table | None) -> Callable[[Batches], Batches]:
    """Return the function that yields OPERATION for each of these sends that an ok operation read as committed."""

    def act(batches: Batches) -> Batches:
        is_uncommitted = _is_one_of(uncommitted)
        for rows in batches:
            counts = pc.and_(pc.equal(rows["outcome"], OK), pc.invert(is_uncommitted(rows)))
            read = rows.filter(pc.and_(rows["polled"], counts)).select(["run", "key", "value"])
            proven = doubtful.join(
                pa.Table.from_batches([read]), ["run", "key", "value"], join_type="left semi"
            )
            yield from proven.select(OPERATION.names).combine_chunks().to_batches()

    return act


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


def collect_pieces(batches: Batches) -> tuple[pa.Table, int]:
    """Return the rows of all pieces, and their lowest group. Raises `ValueError` if they are too many."""
    pieces: list[pa.RecordBatch] = []
    row_count, lowest = 0, GROUPS
    for batch in batches:
        lowest = min(lowest, pc.min(batch["group"]).as_py() if len(batch) else GROUPS)
        for piece in batch["rows"].to_pylist():
            # Copy to bytes: a slice of Spark's buffer may not be aligned, which slows numpy down.
            pieces.append(pa.ipc.read_record_batch(pa.py_buffer(piece), ROWS))
            row_count += len(pieces[-1])
            if row_count > MOST:
                raise ValueError(
                    f"a task would have to hold more than {MOST:,} sends and reads, because all rows of a "
                    "key are checked together: check a shorter part of the history"
                )
    return pa.Table.from_batches(pieces, ROWS).combine_chunks(), lowest


_i8, _i32, _i64, _bool = pa.int8(), pa.int32(), pa.int64(), pa.bool_()
STEP = pa.struct(
    [
        *((name, _i64) for name in ("run", "key", "value", "offset", "op", "process", "rank")),
        *((name, _i64) for name in ("lowest", "highest", "index", "writer", "bound")),
        *((name, _i64) for name in ("lowest_offset", "passer", "passer_value", "passer_offset")),
        ("n", _i32),
        ("outcome", _i8),
        ("writer_outcome", _i8),
        *((name, _bool) for name in ("polled", "clash", "own", "first", "due", "ok_read", "ok_sent")),
    ]
)
JUMP = pa.struct(
    [
        *((name, _i64) for name in ("run", "key", "process", "op", "value", "index")),
        *((name, _i64) for name in ("offset", "op_before", "value_before", "offset_before", "before")),
        ("lost_writer", _i64),  # see `checkers.histories.records.writers_if_all_lost`
        ("n", _i32),
        ("outcome", _i8),
        ("inside", _bool),  # both steps belong to one operation
        ("polled", _bool),
    ]
)
COUNTED = pa.struct([(name, _i64) for name in ("run", "records", "read", "in_place_of_another")])
FOUND = pa.schema([("step", STEP), ("jump", JUMP), ("counted", COUNTED), ("pack", PACK)])
"""Each row has exactly one of these columns."""


def by_key(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield FOUND for the pieces of a partition, which hold all rows of each of its keys."""
    table, lowest_group = collect_pieces(batches)
    if not len(table):
        return
    rows = OperationRows(table)
    del table
    records = make_records(rows)
    yield _batch("step", _steps(rows, records))
    done = rows.sends[rows.outcome[rows.sends] != OPEN]
    ok = rows.outcome == OK
    yield _batch("jump", _jumps(rows, records, rows.polls, ok))
    yield _batch("jump", _jumps(rows, records, done, ok | (rows.outcome == INFO)))
    yield _batch("counted", _counted(rows, records))
    for pack in _packs(rows, records, lowest_group * PARTS):
        yield _batch("pack", pack)


def _batch(name: str, array: pa.StructArray) -> pa.RecordBatch:
    arrays = [array if field.name == name else pa.nulls(len(array), field.type) for field in FOUND]
    return pa.RecordBatch.from_arrays(arrays, schema=FOUND)


def _struct(kind: pa.StructType, columns: dict[str, np.ndarray | pa.Array]) -> pa.StructArray:
    arrays = [pa.array(columns[field.name], field.type) for field in kind]
    return pa.StructArray.from_arrays(arrays, fields=list(kind))


def _or_null(numbers: np.ndarray, nothing: int) -> pa.Array:
    return pa.array(numbers, mask=numbers == nothing)


def _steps(rows: OperationRows, records: RecordRows) -> pa.StructArray:
    """Return the rows of every record that is not ordinary, and rows in which an operation read its own record.

    A record is ordinary if its sender must have committed, an ok operation read it, and it has one offset that it
    shares with no other record, or no known offset.
    """
    ordinary = records.due & records.ok_read & ((records.index > 0) | (records.highest == 0))
    unusual = np.flatnonzero(~ordinary[records.of_row] | records.own)
    record = records.of_row[unusual]
    of_record = ("due", "ok_read", "ok_sent")
    passer = _passers(rows, records)[record]
    no_passer = passer == NONE
    return _struct(
        STEP,
        {
            **{name: getattr(rows, name)[unusual] for name in ("run", "key", "value", "op", "process")},
            **{name: getattr(rows, name)[unusual] for name in ("n", "outcome", "polled")},
            **{name: getattr(records, name)[unusual] for name in ("clash", "own")},
            **{name: getattr(records, name)[record] for name in of_record},
            **{
                name: _or_null(getattr(records, name)[record], 0)
                for name in ("lowest", "highest", "index", "bound")
            },
            **{
                name: _or_null(getattr(records, name)[record], NONE)
                for name in ("writer", "writer_outcome", "lowest_offset")
            },
            "passer": pa.array(rows.op[passer], mask=no_passer),
            "passer_value": pa.array(rows.value[passer], mask=no_passer),
            "passer_offset": _or_null(np.where(no_passer, NONE, rows.offset[passer]), NONE),
            "offset": _or_null(rows.offset[unusual], NONE),
            "rank": _or_null(records.rank[unusual], 0),
            "first": records.first[record] == unusual,
        },
    )


def _passers(rows: OperationRows, records: RecordRows) -> np.ndarray:
    """Return for each record that may be lost the row in which an ok read got farthest in the key."""
    passers = np.full(len(records), NONE)
    lost = np.flatnonzero(records.due & ~records.ok_read & (records.bound > 0))
    if len(lost):
        reads = rows.polls[rows.outcome[rows.polls] == OK]
        record = records.of_row[reads]
        farthest = reads[records.lowest[record] == records.bound[record]]
        by_key = np.full(int(rows.group.max()) + 1, NONE)
        by_key[rows.group[farthest]] = farthest
        passers[lost] = by_key[rows.group[records.first[lost]]]
    return passers


def _jumps(
    rows: OperationRows, records: RecordRows, in_order: np.ndarray, moves: np.ndarray
) -> pa.StructArray:
    at, before, inside = find_jumps(rows, records, in_order, moves)
    index = records.index[records.of_row]
    lost_writer = writers_if_all_lost(rows.group[at], index[before], index[at], rows, records)
    return _struct(
        JUMP,
        {
            **{name: getattr(rows, name)[at] for name in ("run", "key", "process", "op", "value")},
            **{name: getattr(rows, name)[at] for name in ("n", "outcome")},
            "index": index[at],
            "offset": _or_null(rows.offset[at], NONE),
            "op_before": rows.op[before],
            "value_before": rows.value[before],
            "offset_before": _or_null(rows.offset[before], NONE),
            "before": index[before],
            "lost_writer": _or_null(lost_writer, NONE),
            "inside": inside,
            "polled": rows.polled[at],
        },
    )


def _counted(rows: OperationRows, records: RecordRows) -> pa.StructArray:
    """Return by run the number of records, of ok-read records, and of rows with the same number in an operation as
    another row.
    """
    runs, at = np.unique(rows.run[records.first], return_inverse=True)
    by_run = at[records.of_row]
    counted = {
        "records": np.bincount(at),
        "read": np.bincount(at[records.ok_read], minlength=len(runs)),
        "in_place_of_another": sum(
            np.bincount(by_run[rows.in_place_of_another(steps)], minlength=len(runs))
            for steps in (rows.sends, rows.polls)
        ),
    }
    return _struct(COUNTED, {"run": runs, **counted})


def _packs(rows: OperationRows, records: RecordRows, first_id: int) -> Iterator[pa.StructArray]:
    """Yield PACK. The first pack has the intervals of all packs."""
    pack_of_all = make_pack(rows, records)
    low, high = merge_intervals(*backward_spans(edges_of(pack_of_all)))
    for n, pack in enumerate(cut(pack_of_all)):
        assert n < PARTS, "the numbers of the packs of two tasks would overlap"
        intervals = {"low": low.tobytes(), "high": high.tobytes()} if n == 0 else {"low": b"", "high": b""}
        yield pa.array([{"id": first_id + n, **pack.blobs(), **intervals}], PACK)
