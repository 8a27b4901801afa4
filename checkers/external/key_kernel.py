"""The computation of a Spark task that has all rows of its keys. It returns the unusual rows, and packs of all rows."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from checkers.external.by_key.jumps import find_jumps, writers_if_all_lost
from checkers.external.by_key.rows import NONE, OperationRows, RecordRows, make_records
from checkers.external.by_key.shuffle import collect_pieces
from checkers.external.by_key.version_log import PACK, PARTS, cut, make_pack
from checkers.external.graph.edges import edges_of
from checkers.external.graph.intervals import backward_spans, merge_intervals
from harness.history_files.schema import INFO, OK, OPEN

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
        ("lost_writer", _i64),  # see `checkers.external.by_key.jumps.writers_if_all_lost`
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
    table = collect_pieces(batches)
    if table is None:
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
    for pack in _packs(rows, records):
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


def _packs(rows: OperationRows, records: RecordRows) -> Iterator[pa.StructArray]:
    """Yield PACK. The first pack has the intervals of all packs."""
    pack_of_all = make_pack(rows, records)
    low, high = merge_intervals(*backward_spans(edges_of(pack_of_all)))
    context = TaskContext.get()
    first = (context.partitionId() if context else 0) * PARTS
    for n, pack in enumerate(cut(pack_of_all)):
        intervals = {"low": low.tobytes(), "high": high.tobytes()} if n == 0 else {"low": b"", "high": b""}
        yield pa.array([{"id": first + n, **pack.blobs(), **intervals}], PACK)
