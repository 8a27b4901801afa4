"""Rows of the table of micro-operations, all of one key."""

from typing import Any

import pyarrow as pa

from harness.record.history_form import MICRO, OK

Row = dict[str, Any]


def send_row(op: int, value: int, offset: int | None = None, outcome: int = OK, **more: int) -> Row:
    """A record that an operation sent. The column `committed` is true if the operation is ok."""
    return _row(op, value, offset, outcome, polled=False) | more


def poll_row(op: int, value: int, offset: int | None, outcome: int = OK, **more: int) -> Row:
    """A record that an operation polled at isolation level read committed."""
    return _row(op, value, offset, outcome, polled=True) | more


def _row(op: int, value: int, offset: int | None, outcome: int, *, polled: bool) -> Row:
    committed = polled or outcome == OK
    return {
        "run": 0,
        "key": 7,
        "value": value,
        "offset": offset,
        "op": op,
        "n": 0,
        "process": op,
        "outcome": outcome,
        "polled": polled,
        "committed": committed,
    }


def micro_table(*rows: Row) -> pa.Table:
    """A table of the schema MICRO with the additional column `committed`."""
    return pa.Table.from_pylist(list(rows), MICRO.append(pa.field("committed", pa.bool_())))
