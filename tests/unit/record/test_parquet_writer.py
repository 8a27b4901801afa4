"""Rows are added one by one or many at once, and keep their order."""

from itertools import product
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.record import parquet
from harness.record.parquet import RowBuffer, open_parquet

SCHEMA = pa.schema(
    [
        ("n", pa.int64()),
        ("word", pa.string()),
        ("inputs", pa.list_(pa.struct([("tp", pa.int32()), ("offset", pa.int64())]))),
    ]
)


def test_rows_keep_the_order_in_which_they_were_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "CHUNK_ROWS", 3)
    path = tmp_path / "t.parquet"
    with open_parquet(path, SCHEMA) as writer:
        writer.append((0, "a", ()))
        writer.extend(3, [1, 2, 3], "b", [[(0, 9)], [], [(1, 2), (3, 4)]])
        writer.append((4, None, [(5, 6)]))
        assert not path.exists()
    table = pq.read_table(path)
    assert table.schema.equals(SCHEMA)
    assert table["n"].to_pylist() == [0, 1, 2, 3, 4]
    assert table["word"].to_pylist() == ["a", "b", "b", "b", None]
    pairs = [[(pair["tp"], pair["offset"]) for pair in cell] for cell in table["inputs"].to_pylist()]
    assert pairs == [[], [(0, 9)], [], [(1, 2), (3, 4)], [(5, 6)]]
    assert pq.ParquetFile(path).num_row_groups == 2


PIECES = {
    "one row": [(1, "a", ())],
    "columns": [(2, "b", [(0, 9)]), (3, "c", ())],
    "shared cells": [(4, "d", ((1, 2),))] * 3,
    "one shared cell": [(5, None, ()), (5, "e", ())],
    "no row": [],
}


def add_piece(columns: RowBuffer, kind: str) -> None:
    rows = PIECES[kind]
    if kind == "one row":
        columns.append(rows[0])
    elif kind == "shared cells":
        columns.extend(len(rows), *rows[0])
    elif kind == "one shared cell":
        columns.extend(len(rows), 5, [row[1] for row in rows], [row[2] for row in rows])
    else:
        columns.extend(len(rows), *([row[n] for row in rows] for n in range(3)))


@pytest.mark.parametrize("kinds", list(product(PIECES, repeat=3)))
def test_every_mix_of_append_and_extend_gives_the_same_rows(kinds: tuple[str, ...]) -> None:
    columns = RowBuffer(SCHEMA)
    for _ in range(2):  # the second time with a buffer that was cleared
        for kind in kinds:
            add_piece(columns, kind)
        rows = [row for kind in kinds for row in PIECES[kind]]
        assert len(columns) == len(rows)
        batch = columns.take()
        batch.validate(full=True)
        assert batch.schema == SCHEMA
        cells = [tuple(row.values()) for row in batch.to_pylist()]
        assert cells == [
            (n, word, [{"tp": tp, "offset": offset} for tp, offset in inputs]) for n, word, inputs in rows
        ]


def test_a_column_with_too_few_cells_is_refused() -> None:
    with pytest.raises(ValueError, match="1 cells, but there are 2 rows"):
        RowBuffer(SCHEMA).extend(2, [1], "a", None)


def test_rows_that_cannot_be_encoded_leave_no_table(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="schema"), open_parquet(tmp_path / "t.parquet", SCHEMA) as writer:
        writer.write(pa.record_batch([pa.array([1])], names=["other"]))
        writer.append((1, "a", ()))
        writer.flush()
    assert not (tmp_path / "t.parquet").exists()
