"""The first bytes of a history: a file that cannot be read is refused before Spark is started."""

import gzip
import os
from pathlib import Path

import pytest

from checkers.histories.blocks import LOOK_BYTES, require_readable
from fencepost.checks.run_folders import find_histories
from harness.common.errors import UnreadableInput

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
    "empty.jsonl": (b"", "empty.jsonl has no event: one event a line is expected"),
    "blank.jsonl": (b"\n \r\n", "has no event"),
    "comments.edn": (b"; nothing\n", "has no event"),
    "empty.edn.gz": (b"", "has no event"),
    "nothing.jsonl.gz": (gzip.compress(b""), "has no event"),
    "plain.jsonl.gz": (
        EVENT,
        "is not a gzip file, but its name ends in .gz: if it is not compressed, remove .gz",
    ),
    "damaged.jsonl": (gzip.compress(EVENT)[:11], "the gzip data is damaged or cut off after line 0: "),
    "latin.jsonl": (EVENT + b'{"process":"\xe9"}\n', "line 2: this is not UTF-8, at byte 13"),
    "wide.edn": (
        "{:process 0}".encode("utf-16"),
        "is UTF-16, but UTF-8 is expected: `iconv -f UTF-16 -t UTF-8",
    ),
    "pretty.json": (
        b'{\n  "process": 0,\n',
        "line 1: one event a line is expected, but this is part of an event over several lines",
    ),
    "pretty.json.gz": (gzip.compress(b'\n{\n  "process": 0,\n'), "line 2: one event a line is expected"),
    "list.json": (b"[" + EVENT.strip() + b"]", "line 1: an event is a map"),
    "wrapped.json": (
        b'{"history": [' + EVENT.strip() + b"]}\n",
        'but this is a map with a list of events, "history": `jq -c \'."history"[]\' FILE > EVENTS.jsonl`',
    ),
    "wrapped-lines.json": (
        b'{"history": [\n' + EVENT,
        "line 1: one event a line is expected, but this is part of a list over several lines: `jq -c '.\"history\"[]'",
    ),
    "wrapped.edn": (
        b"{:test 1 :history [{:process 0, :type :invoke}]}\n",
        'this is a map with a list of events, "history": in Clojure, `(run! prn events)`',
    ),
    "zeros.jsonl": (b"\0" * 5000, "line 1: this line ends in bytes that are zero, as after a crash"),
    "zeros.edn": (b"\0" * 5000, "line 1: this line ends in bytes that are zero, as after a crash"),
    "append.edn": (
        b"{:process 0, :type :invoke, :f :txn, :value [[:append 1 2]]}\n",
        'line 1: a micro-operation is a send or a poll, not ["append", 1, 2]',
    ),
}


@pytest.mark.parametrize("name", READABLE)
def test_a_file_with_a_readable_beginning_is_accepted(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(READABLE[name])
    (history_file,) = find_histories(str(tmp_path / name))
    assert (history_file.file, history_file.error) == (tmp_path / name, None)


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_file_with_an_unreadable_beginning_is_refused(tmp_path: Path, name: str) -> None:
    data, message = UNREADABLE[name]
    if data is not None:
        (tmp_path / name).write_bytes(data)
    elif name.startswith("folder"):
        (tmp_path / name).mkdir()
    with pytest.raises(UnreadableInput) as refused:
        require_readable(tmp_path / name)
    assert message in str(refused.value)
    (history_file,) = find_histories(str(tmp_path / name))
    assert history_file.file is None and history_file.error is not None


def test_only_the_first_bytes_of_a_large_file_are_read(tmp_path: Path) -> None:
    path = tmp_path / "large.jsonl"
    with path.open("wb") as file:
        file.write(EVENT)
        file.truncate(1 << 40)  # sparse
    (history_file,) = find_histories(str(path))
    assert history_file.error is None
