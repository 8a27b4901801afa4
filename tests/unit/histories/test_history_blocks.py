"""Blocks: each line of a file belongs to exactly one block. The last row of a block has its error."""

import gzip
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkers.histories import blocks as under_test
from checkers.histories.blocks import BLOCK_ROWS, BYTE_ORDER_MARK, OTHER_SENDS, blocks_of, read_block
from harness.common.errors import UnreadableInput

EVENT = b'{"process":0,"type":"ok","f":"x"}'


def rows(path: Path, block_bytes: int = 1 << 20) -> list[dict]:
    batches = [batch for block in blocks_of(7, path, block_bytes) for batch in read_block(block)]
    assert all(batch.schema == BLOCK_ROWS for batch in batches)
    return [row for batch in batches for row in batch.to_pylist()]


def lines_of(path: Path, block_bytes: int) -> list[int]:
    """Return the numbers of the lines that have events, counted from the start of the file."""
    numbers, before = [], 0
    events: list[int] = []
    for row in rows(path, block_bytes):
        if row["lines"] is None:
            events.append(row["line"])
        else:
            assert row["error"] is None
            numbers += [before + line for line in events]
            before, events = before + row["lines"], []
    return numbers


@settings(deadline=None)
@given(st.lists(st.sampled_from([EVENT, EVENT + b" " * 50, b"", b" "])), st.integers(1, 120), st.booleans())
def test_each_line_is_read_once_for_any_size_of_the_blocks(lines: list[bytes], block_bytes: int, end: bool):
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "h.jsonl"
        path.write_bytes(b"\n".join(lines) + (b"\n" if end else b""))
        assert lines_of(path, block_bytes) == [n for n, line in enumerate(lines) if line.strip()]


@pytest.mark.parametrize("chunk", [1, 7, 34, 1 << 20])
def test_a_gzipped_file_is_one_block(tmp_path: Path, chunk: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(under_test, "BLOCK_BYTES", chunk)
    path = tmp_path / "h.json.gz"
    path.write_bytes(gzip.compress(EVENT + b"\n\n" + EVENT + b"\n") + gzip.compress(EVENT))
    assert len(blocks_of(0, path, 1)) == 1
    assert lines_of(path, 1) == [0, 2, 3]


@pytest.mark.parametrize("name", ["h.jsonl", "h.json"])
def test_gzip_is_recognized_by_its_first_bytes_and_not_by_its_name(tmp_path: Path, name: str):
    path = tmp_path / name
    path.write_bytes(gzip.compress(EVENT + b"\n\n" + EVENT + b"\n"))
    assert [block.gzipped for block in blocks_of(0, path, 1)] == [True]
    assert lines_of(path, 1) == [0, 2]


def test_a_file_named_gz_that_is_not_gzip_is_refused(tmp_path: Path):
    path = tmp_path / "h.jsonl.gz"
    path.write_bytes(EVENT)
    with pytest.raises(
        UnreadableInput, match=r"^\S*h.jsonl.gz is not a gzip file, but its name ends in .gz: if "
    ):
        blocks_of(0, path)


@pytest.mark.parametrize("cut", [0, 5, -4, -12])
def test_gzip_data_that_is_cut_off_is_an_error(tmp_path: Path, cut: int):
    path = tmp_path / "h.jsonl.gz"
    path.write_bytes(gzip.compress(b"\n".join([EVENT] * 9))[:cut])
    assert "the gzip data is damaged or cut off after line" in rows(path)[-1]["error"]


@pytest.mark.parametrize("chunk", [50, 8 << 20])
def test_the_error_of_damaged_gzip_has_the_number_of_lines_before_it(
    tmp_path: Path, chunk: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(under_test, "BLOCK_BYTES", chunk)
    lines = b"".join(EVENT + b"\n" for _ in range(9))
    path = tmp_path / "h.jsonl.gz"
    for data in (gzip.compress(lines)[:-4], gzip.compress(lines) + b"rubbish"):
        path.write_bytes(data)
        assert "the gzip data is damaged or cut off after line 9: " in rows(path)[-1]["error"]


def test_damaged_gzip_data_is_an_error(tmp_path: Path):
    compressed = bytearray(gzip.compress(b"\n".join(EVENT + b"%d" % n for n in range(999))))
    compressed[len(compressed) // 2] ^= 255
    for number, data in enumerate((bytes(compressed), gzip.compress(EVENT) + b"rubbish")):
        path = tmp_path / f"{number}.edn.gz"
        path.write_bytes(data)
        assert "damaged" in rows(path)[-1]["error"]


def test_a_line_that_is_too_long_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(under_test, "LINE_LIMIT_BYTES", 100)
    long = EVENT[:-1] + b" " * 200 + b"}"
    text = b"\n".join([EVENT, b"{", long, EVENT])
    for name, data in (("h.jsonl", text), ("h.jsonl.gz", gzip.compress(text))):
        (tmp_path / name).write_bytes(data)
        (last_row,) = [row for row in rows(tmp_path / name) if row["lines"] is not None]
        assert (last_row["line"], last_row["error"][:16]) == (1, "one event a line")
    text = b"\n".join([EVENT, long, EVENT])
    for name, data in (("h.jsonl", text), ("h.jsonl.gz", gzip.compress(text))):
        (tmp_path / name).write_bytes(data)
        (last_row,) = [row for row in rows(tmp_path / name) if row["lines"] is not None]
        assert (last_row["line"], last_row["error"]) == (1, "the line is longer than 0 MiB")
    errors = [row["error"] for row in rows(tmp_path / "h.jsonl", 20) if row["lines"] is not None]
    assert errors[:4] == [None, "the line is longer than 0 MiB", None, None]


def test_a_byte_order_mark_is_not_part_of_the_first_line(tmp_path: Path):
    (tmp_path / "h.jsonl").write_bytes(BYTE_ORDER_MARK + EVENT)
    (tmp_path / "h.edn.gz").write_bytes(gzip.compress(BYTE_ORDER_MARK + b"{:process 0, :type :ok, :f :x}"))
    assert lines_of(tmp_path / "h.jsonl", 1 << 20) == lines_of(tmp_path / "h.edn.gz", 1) == [0]


def test_an_invocation_keeps_its_sends_until_it_is_completed(tmp_path: Path):
    path = tmp_path / "h.jsonl"
    event = b'{"process":%d,"type":"%s","f":"send","value":[["send",1,%d]]}\n'
    events = [(0, b"invoke", 1), (1, b"invoke", 2), (0, b"info", 1), (2, b"info", 3), (0, b"invoke", 4)]
    path.write_bytes(b"".join(event % values for values in events))
    sent = [row["sends"] and row["sends"][0]["value"] for row in rows(path)]
    assert sent == [None, 2, 1, 3, 4, None]


SEND = '{"process":0,"type":"%s","f":"txn","value":%s}'


@pytest.mark.parametrize(
    ("kind", "value", "wrong"),
    [
        ("ok", '[["send",1,[0,7]],["send",2,8]]', False),
        ("info", "null", False),
        ("fail", "[]", False),
        ("ok", "[]", True),
        ("ok", '[["send",1,7],["send",2,9]]', True),
        ("info", '[["send",1,7]]', True),
        ("fail", '[["send",1,7],["send",3,8]]', True),
    ],
)
def test_a_completion_must_have_the_sends_of_its_invocation(
    tmp_path: Path, kind: str, value: str, wrong: bool
) -> None:
    path = tmp_path / "h.jsonl"
    invocation = SEND % ("invoke", '[["send",1,7],["send",2,8]]')
    path.write_text(f"{invocation}\n{SEND % (kind, value)}\n")
    invoked, _, last_row = rows(path)
    assert (last_row["line"], last_row["error"]) == ((1, OTHER_SENDS) if wrong else (None, None))
    assert bool(last_row["waiting"]) == (value in ("null", "[]") and kind != "ok") == bool(invoked["sends"])


def test_an_invocation_may_have_no_sends(tmp_path: Path) -> None:
    (tmp_path / "h.jsonl").write_text("\n".join([SEND % ("invoke", "[]"), SEND % ("ok", '[["send",1,7]]')]))
    *_, last_row = rows(tmp_path / "h.jsonl")
    assert last_row["error"] is None


def test_an_empty_file_has_no_lines(tmp_path: Path):
    (tmp_path / "h.edn").touch()
    (last_row,) = rows(tmp_path / "h.edn")
    assert (last_row["lines"], last_row["error"]) == (0, None)


def test_a_block_has_its_first_error_with_its_line(tmp_path: Path):
    (tmp_path / "h.jsonl").write_bytes(b"\n".join([EVENT, b"", b"[1]", b"{}", EVENT]))
    *events, last_row = rows(tmp_path / "h.jsonl")
    assert [event["line"] for event in events] == [0, 4]
    assert (last_row["line"], last_row["lines"]) == (2, 5)
    assert last_row["error"].startswith("an event is a map, not [1]")


@pytest.mark.parametrize("name", ["missing.edn", "history.txt", "history.gz", "folder.edn"])
def test_the_error_names_a_file_that_is_no_history(tmp_path: Path, name: str):
    (tmp_path / "history.txt").touch()
    (tmp_path / "history.gz").touch()
    (tmp_path / "folder.edn").mkdir()
    with pytest.raises(UnreadableInput, match=name):
        blocks_of(0, tmp_path / name)


def test_a_file_that_is_deleted_before_it_is_read_is_an_error(tmp_path: Path):
    path = tmp_path / "h.edn"
    path.write_bytes(b"{}")
    (block,) = blocks_of(0, path)
    path.unlink()
    (last_row,) = [row for batch in read_block(block) for row in batch.to_pylist()]
    assert "cannot be read: No such file" in last_row["error"]


def test_a_pipe_and_a_device_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "device.jsonl").symlink_to("/dev/zero")
    for name in ("pipe.jsonl", "device.jsonl"):
        with pytest.raises(UnreadableInput, match="is not a regular file: write the history to a file first"):
            blocks_of(7, tmp_path / name)
