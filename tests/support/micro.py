"""Micro-operations of one key, for tests of what is made of them."""

from typing import Any

import pyarrow as pa

from harness.history_files.schema import MICRO, OK

Row = dict[str, Any]


def sent(op: int, value: int, offset: int | None = None, outcome: int = OK, **more: int) -> Row:
    """A record sent by an operation, which must have committed if it is ok."""
    return _row(op, value, offset, outcome, polled=False) | more


def given(op: int, value: int, offset: int | None, outcome: int = OK, **more: int) -> Row:
    """A record given to one that was promised what is committed."""
    return _row(op, value, offset, outcome, polled=True) | more


def _row(op: int, value: int, offset: int | None, outcome: int, *, polled: bool) -> Row:
    place = {"run": 0, "key": 7, "value": value, "offset": offset}
    committed = polled or outcome == OK
    return place | {
        "op": op,
        "n": 0,
        "process": op,
        "outcome": outcome,
        "polled": polled,
        "committed": committed,
    }


def table(*rows: Row) -> pa.Table:
    """MICRO, with `committed`."""
    return pa.Table.from_pylist(list(rows), MICRO.append(pa.field("committed", pa.bool_())))
