"""Rows come one by one or many at once, and stand in the table as they came."""

from itertools import product
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.record import parquet_writer
from harness.record.parquet_writer import RowBuffer, open_parquet

SCHEMA = pa.schema(
    [
        ("n", pa.int64()),
        ("word", pa.string()),
        ("inputs", pa.list_(pa.struct([("tp", pa.int32()), ("offset", pa.int64())]))),
    ]
)


def test_rows_stand_in_the_order_in_which_they_came(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_writer, "CHUNK_ROWS", 3)
    path = tmp_path / "t.parquet"
    with open_parquet(path, SCHEMA) as sheet:
        sheet.append((0, "a", ()))
        sheet.extend(3, [1, 2, 3], "b", [[(0, 9)], [], [(1, 2), (3, 4)]])
        sheet.append((4, None, [(5, 6)]))
        assert not path.exists()
    table = pq.read_table(path)
    assert table.schema.equals(SCHEMA)
    assert table["n"].to_pylist() == [0, 1, 2, 3, 4]
    assert table["word"].to_pylist() == ["a", "b", "b", "b", None]
    pairs = [[(place["tp"], place["offset"]) for place in cell] for cell in table["inputs"].to_pylist()]
    assert pairs == [[], [(0, 9)], [], [(1, 2), (3, 4)], [(5, 6)]]
    assert pq.ParquetFile(path).num_row_groups == 2


PIECES = {
    "one by one": [(1, "a", ())],
    "cells": [(2, "b", [(0, 9)]), (3, "c", ())],
    "the same": [(4, "d", ((1, 2),))] * 3,
    "the same number": [(5, None, ()), (5, "e", ())],
    "none": [],
}


def give(columns: RowBuffer, kind: str) -> None:
    rows = PIECES[kind]
    if kind == "one by one":
        columns.append(rows[0])
    elif kind == "the same":
        columns.extend(len(rows), *rows[0])
    elif kind == "the same number":
        columns.extend(len(rows), 5, [row[1] for row in rows], [row[2] for row in rows])
    else:
        columns.extend(len(rows), *([row[n] for row in rows] for n in range(3)))


@pytest.mark.parametrize("kinds", list(product(PIECES, repeat=3)))
def test_however_they_come_they_are_the_same(kinds: tuple[str, ...]) -> None:
    columns = RowBuffer(SCHEMA)
    for _ in range(2):  # the second time after all was taken
        for kind in kinds:
            give(columns, kind)
        rows = [row for kind in kinds for row in PIECES[kind]]
        assert len(columns) == len(rows)
        taken = columns.take()
        taken.validate(full=True)
        assert taken.schema == SCHEMA
        cells = [tuple(row.values()) for row in taken.to_pylist()]
        assert cells == [
            (n, word, [{"tp": tp, "offset": offset} for tp, offset in of]) for n, word, of in rows
        ]


def test_a_column_with_too_few_cells_is_refused() -> None:
    with pytest.raises(ValueError, match="of 2 rows"):
        RowBuffer(SCHEMA).extend(2, [1], "a", None)


def test_rows_that_cannot_be_encoded_leave_no_table(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="schema"), open_parquet(tmp_path / "t.parquet", SCHEMA) as sheet:
        sheet.write(pa.record_batch([pa.array([1])], names=["other"]))
        sheet.append((1, "a", ()))
        sheet.flush()
    assert not (tmp_path / "t.parquet").exists()
