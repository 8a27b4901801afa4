"""The first bytes of a history: what cannot be read is refused before Spark is started for it."""

import gzip
import os
from pathlib import Path

import pytest

from fencepost.checks.run_folders import find_histories
from harness.common.errors import UnreadableInput
from harness.history_files.first_look import LOOK_BYTES, require_readable

EVENT = b'{"process":0,"type":"invoke","f":"txn","value":[]}\n'
EDN = b"; a comment\n\n#jepsen.history.Op{:process 0, :type :invoke, :f :txn, :value []}\n"

READABLE = {
    "plain.jsonl": EVENT,
    "plain.json": b"\n\r\n" + EVENT,
    "packed.jsonl": gzip.compress(EVENT),
    "packed.edn": gzip.compress(EDN),
    "packed.json.gz": gzip.compress(EVENT) + gzip.compress(EVENT),
    "clojure.edn": EDN,
    "marked.jsonl": b"\xef\xbb\xbf" + EVENT,
    "unfinished.jsonl": EVENT.strip(),
    "later.jsonl": EVENT + b"rubbish\n",
    "long.jsonl": EVENT.replace(b"[]", b"[" + b" " * LOOK_BYTES + b"]"),
    "character.jsonl": (b" " * (LOOK_BYTES - len(EVENT) - 1) + b"\n" + EVENT)[:-1] + "é".encode(),
    "cut.jsonl.gz": gzip.compress(EVENT + os.urandom(3 * LOOK_BYTES).hex().encode())[: 2 * LOOK_BYTES],
}
UNREADABLE = {
    "missing.jsonl": (None, "missing.jsonl cannot be read: No such file"),
    "folder.jsonl": (None, "is not a regular file: write the history to a file first"),
    "table.csv": (EVENT, "is not a history: a history's name ends in .jsonl, .json, .edn"),
    "empty.jsonl": (b"", "empty.jsonl holds no event: one event a line is expected"),
    "blank.jsonl": (b"\n \r\n", "holds no event"),
    "comments.edn": (b"; nothing\n", "holds no event"),
    "empty.edn.gz": (b"", "holds no event"),
    "nothing.jsonl.gz": (gzip.compress(b""), "holds no event"),
    "plain.jsonl.gz": (
        EVENT,
        "is no gzip file, though its name ends in .gz: if it is not compressed, remove .gz",
    ),
    "damaged.jsonl": (gzip.compress(EVENT)[:11], "the gzip data is damaged or cut off after line 0: "),
    "latin.jsonl": (EVENT + b'{"process":"\xe9"}\n', "line 2: this is not UTF-8, at byte 13"),
    "wide.edn": (
        "{:process 0}".encode("utf-16"),
        "is UTF-16, and UTF-8 is expected: `iconv -f UTF-16 -t UTF-8",
    ),
    "pretty.json": (b'{\n  "process": 0,\n', "line 1: one event a line is expected, and here an event goes"),
    "pretty.json.gz": (gzip.compress(b'\n{\n  "process": 0,\n'), "line 2: one event a line is expected"),
    "list.json": (b"[" + EVENT.strip() + b"]", "line 1: an event is a map"),
    "append.edn": (
        b"{:process 0, :type :invoke, :f :txn, :value [[:append 1 2]]}\n",
        'line 1: a micro-operation is a send or a poll, not ["append", 1, 2]',
    ),
}


@pytest.mark.parametrize("name", READABLE)
def test_a_file_whose_beginning_can_be_read_is_left_to_spark(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(READABLE[name])
    (given,) = find_histories(str(tmp_path / name))
    assert (given.file, given.error) == (tmp_path / name, None)


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_file_that_cannot_be_read_is_refused_by_its_beginning(tmp_path: Path, name: str) -> None:
    data, words = UNREADABLE[name]
    if data is not None:
        (tmp_path / name).write_bytes(data)
    elif name.startswith("folder"):
        (tmp_path / name).mkdir()
    with pytest.raises(UnreadableInput) as refused:
        require_readable(tmp_path / name)
    assert words in str(refused.value)
    (given,) = find_histories(str(tmp_path / name))
    assert given.file is None and given.error is not None


def test_a_large_file_is_looked_at_in_its_first_bytes_alone(tmp_path: Path) -> None:
    path = tmp_path / "large.jsonl"
    with path.open("wb") as file:
        file.write(EVENT)
        file.truncate(1 << 40)  # sparse
    (given,) = find_histories(str(path))
    assert given.error is None
