"""History files that nobody meant: random bytes, valid files that were changed, events with anything in them.

What must hold of each is said once here; the quick run tries a few hundred of each, `tests/chaos` many more.
"""

import gzip
import tempfile
import zlib
from collections.abc import Iterable
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import strategies as st

from harness.common.errors import UnreadableInput
from harness.history_files.blocks import BLOCK_ROWS, BYTE_ORDER_MARK, GZIP, SUFFIXES, blocks_of, read_block
from harness.history_files.pairs import OTHER_SENDS
from tests.reference.forms import numbered
from tests.reference.generate import bent, random_history, to_edn, to_jsonl

INT64_MAX = (1 << 63) - 1
NASTY = (
    b"NaN", b"1e999", b"-0", b"-0.0", b"9" * 19, b"9" * 5000, b"\x00", b"\xff\xfe", b"\xed\xa0\x80",
    b'"\\ud800"', b"#_", b"##NaN", b"##Inf", b"#{", b"#inst", b"{", b"}", b"[", b"]", b"(", b")", b'"', b"\\",
    b"\\u12", b":", b";",
    b"\r", b"\n", b"\n\n", b",", b" ", b"null", b"nil", b"true", b"[" * 1500, b"{:a " * 1500, b"#_" * 1500,
    b'{"":[1,2]}', b"1/0", b"0x1F", b"1N", b"1M", b"\xef\xbb\xbf", b"\xe2\x80\xa8", b'"":', b'"\\u0000"',
    b'{"process":1e3,"type":"ok","f":"txn","value":null}', b"9223372036854775808", b"-9223372036854775809",
)  # fmt: skip


def both_forms(kind: str, events: Iterable[dict[str, Any]]) -> bytes:
    """The events in the form of that suffix."""
    return (to_edn(events) if SUFFIXES[kind] else to_jsonl(events)).encode()


@st.composite
def histories(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Events of a correct broker, with something planted, or bent at random."""
    rng = Random(draw(st.integers(0, 1 << 30)))
    plant = draw(st.sets(st.sampled_from(["duplicate", "lost-write", "poll-skip", "G1c"]), max_size=2))
    events = random_history(rng, draw(st.integers(1, 12)), plant)
    return bent(rng, events, draw(st.integers(0, 5)))


@st.composite
def changed(draw: st.DrawFn, body: bytes) -> bytes:
    """The bytes with a few things done to them: cut, flipped, doubled, moved, spliced."""
    for _ in range(draw(st.integers(0, 4))):
        at, to = sorted(draw(st.tuples(*[st.integers(0, len(body))] * 2)))
        part, act = body[at:to], draw(st.integers(0, 7))
        if act == 0:
            body = body[:to]
        elif act == 1 and body:
            where = min(at, len(body) - 1)
            body = body[:where] + bytes([body[where] ^ 1 << draw(st.integers(0, 7))]) + body[where + 1 :]
        elif act == 2:
            body = body[:at] + body[to:]
        elif act == 3:
            body = body[:to] + part[:2000] + body[to:]
        elif act == 4:
            body = body[to:] + part + body[:at]
        elif act == 5:
            body = body[:at] + draw(st.binary(max_size=8)) + body[at:]
        else:
            body = body[:at] + draw(st.sampled_from(NASTY)) + body[at:]
    return body


@st.composite
def files(draw: st.DrawFn) -> tuple[str, bytes]:
    """The name of a file and what it holds."""
    kind = draw(st.sampled_from(sorted(SUFFIXES)))
    body = draw(st.binary(max_size=200)) if draw(st.booleans()) else both_forms(kind, draw(histories()))
    body = draw(changed(body))
    if not draw(st.booleans()):
        return f"h{kind}", body
    packed = gzip.compress(body, 1)
    if draw(st.booleans()):
        packed += gzip.compress(body, 0)
    return f"h{kind}.gz", draw(changed(packed)) if draw(st.booleans()) else packed


def read(path: Path, block_bytes: int = 1 << 20) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The rows of all blocks, lines counted over the file, and the last rows of the blocks."""
    events: list[dict[str, Any]] = []
    ends: list[dict[str, Any]] = []
    for block in blocks_of(7, path, block_bytes):
        before = sum(end["lines"] for end in ends)
        batches = list(read_block(block))
        assert all(batch.schema == BLOCK_ROWS for batch in batches)
        *rows, end = [row for batch in batches for row in batch.to_pylist()]
        assert all(row["lines"] is None and row["error"] is None for row in rows)
        assert end["lines"] is not None and end["process"] is None
        events += [{**row, "line": before + row["line"]} for row in rows]
        ends.append({**end, "line": None if end["line"] is None else before + end["line"]})
    return events, ends


def first_error(ends: Iterable[dict[str, Any]]) -> tuple[int | None, str] | None:
    """The line, from 0, and the words; None if all could be read."""
    return next(((end["line"], end["error"]) for end in ends if end["error"] is not None), None)


def holds_of_a_file(name: str, body: bytes) -> None:
    """A file is rows, or an error that names its line; and however it is cut, it is the same."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(body)
        if name.endswith(".gz") and not GZIP.startswith(body[: len(GZIP)]):
            with pytest.raises(UnreadableInput, match="is not a gzip file"):
                blocks_of(7, path)
            return
        packed = body.startswith(GZIP) or name.endswith(".gz")
        events, ends = read(path)
        numbers = [event["line"] for event in events]
        assert numbers == sorted(numbers)
        text, whole = unpacked(body) if packed else (body, True)
        text = text.removeprefix(BYTE_ORDER_MARK)
        lines = len(text.removesuffix(b"\n").split(b"\n")) if text else 0
        if whole:
            assert sum(end["lines"] for end in ends) == lines
        assert all(0 <= number < max(lines, 1) for number in numbers)
        error = first_error(ends)
        if error is not None and error[1] == OTHER_SENDS:
            return  # of two lines, which need not be in one block: `checkers.external.read_files` sees to the rest
        assert whole or error is not None
        if error is not None:
            line, words = error
            assert words and "\n" not in words and len(words) < 400, words
            assert line is not None or not whole, words
            assert line is None or (0 <= line < lines and line not in numbers), words
        if whole and not packed:
            in_parts = read(path, 1 + len(body) // 5)
            assert first_error(in_parts[1]) == error
            assert list(map(known, in_parts[0])) == list(map(known, events))


def unpacked(body: bytes) -> tuple[bytes, bool]:
    """What a gzipped file holds, and whether all of it could be had."""
    try:
        return gzip.decompress(body), bool(body)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        pass
    text, rest = b"", body
    while rest:  # as much as there is
        if len(rest) > 3:  # flags that mean nothing: zlib refuses them, and Python's gzip passes over them
            rest = rest[:3] + bytes([rest[3] & 0x1F]) + rest[4:]
        one = zlib.decompressobj(31)
        try:
            while rest and not one.eof:
                text += one.decompress(rest[:1])
                rest = rest[1:]
        except zlib.error:
            break
        rest = (one.unused_data + rest).lstrip(b"\0")
    return text, False


def known(event: dict[str, Any]) -> dict[str, Any]:
    """What does not depend on the events that were read with it."""
    without = {"names", "block"} | ({"sends"} if event["type"] == "invoke" else set())
    return {column: value for column, value in event.items() if column not in without}


KEYS = st.one_of(
    st.integers(-(1 << 70), 1 << 70), st.text(max_size=6).filter(lambda text: not number_like(text))
)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(1 << 70), 1 << 70), st.text(max_size=6), st.floats(-1e15, 1e15)
)
VALUES = st.recursive(
    SCALARS,
    lambda one: st.one_of(st.lists(one, max_size=3), st.dictionaries(st.text(max_size=4), one, max_size=3)),
    max_leaves=5,
)
OFFSETS = st.one_of(st.none(), st.integers(0, 9), st.integers(0, (1 << 63) - 1))


def number_like(text: str) -> bool:
    """Whether JSON's keys would take it for a number."""
    return text.removeprefix("-").isdigit()


def steps(draw: st.DrawFn) -> list[Any]:
    """The micro-operations of a transaction."""
    made: list[Any] = []
    for _ in range(draw(st.integers(0, 4))):
        value = draw(VALUES)
        if draw(st.booleans()):
            bare = draw(st.booleans()) and not isinstance(value, list)
            made.append(["send", draw(KEYS), value if bare else [draw(OFFSETS), value]])
        else:
            records = st.lists(st.tuples(OFFSETS, VALUES).map(list), max_size=3)
            made.append(["poll", draw(st.dictionaries(KEYS, records, max_size=2))])
    return made


@st.composite
def any_events(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Events with all that the form permits; not a history."""
    made: list[dict[str, Any]] = []
    for _ in range(draw(st.integers(1, 6))):
        event: dict[str, Any] = {
            "process": draw(st.one_of(st.integers(-9, 1 << 60), st.just("nemesis"))),
            "type": draw(st.sampled_from(["invoke", "ok", "fail", "info"])),
            "f": draw(st.sampled_from(["txn", "send", "poll", "assign", "subscribe", "crash", "other"])),
        }
        if event["type"] != "invoke" and event["process"] != "nemesis":
            event["process"] += 1 << 61  # what completes here was invoked elsewhere, and told the same there
        keyed = event["f"] in ("assign", "subscribe")
        event["value"] = draw(st.lists(KEYS, max_size=3)) if keyed else steps(draw)
        if draw(st.booleans()):
            event["isolation"] = draw(st.sampled_from(["read_committed", "read_uncommitted"]))
        if draw(st.booleans()):
            event["rebalance-log"] = [{"keys": draw(st.lists(KEYS, max_size=2))}]
        made.append(event)
    return numbered(made)


def holds_of_both_forms(events: list[dict[str, Any]]) -> None:
    """Written as JSON Lines and as EDN, events are the same rows and the same names."""
    told = []
    for name, body in (("h.jsonl", to_jsonl(events)), ("h.edn", to_edn(events))):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / name
            path.write_text(body, encoding="utf-8")
            rows, ends = read(path)
            assert first_error(ends) is None, (first_error(ends), body)
            assert len(rows) == len(events)
            names = {(name["id"], name["text"]) for row in rows for name in row["names"] or ()}
            assert len(names) <= sum(end["named"] for end in ends)
            told.append(([{**row, "names": None} for row in rows], names))
    assert told[0] == told[1]


def mangled(rng: Random, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A history of which each line can be read, and that may mean nothing as a whole."""
    events = deepcopy(events)
    for _ in range(rng.randint(0, 3)):
        at, other = rng.randrange(len(events)), rng.randrange(len(events))
        act = rng.randrange(8)
        if act == 0 and len(events) > 1:
            del events[at]
        elif act == 1:
            events.insert(other, deepcopy(events[at]))
        elif act == 2:
            events[at], events[other] = events[other], events[at]
        elif act == 3:
            events[at]["type"] = rng.choice(["invoke", "ok", "info", "fail"])
        elif act == 4:
            events[at]["process"] = rng.choice([-1, 0, 1 << 62, "nemesis"])
        elif act == 5:
            events[at]["f"] = rng.choice(["send", "poll", "txn", "crash", "debug-topic-partitions"])
        elif act == 6:
            events[at] |= {"time": rng.choice([None, 0, INT64_MAX]), "index": rng.choice([None, INT64_MAX])}
        elif events[at]["type"] != "invoke" and isinstance(events[at]["value"], list):
            _strain(rng, events[at]["value"], _invocation(events, at))
    return events


def _invocation(events: list[dict[str, Any]], at: int) -> list[Any]:
    """The steps of the last event of the same process before this one."""
    before = (one for one in reversed(events[:at]) if one["process"] == events[at]["process"])
    value = next(before, {}).get("value")
    return value if isinstance(value, list) else []


def _strain(rng: Random, steps: list[Any], invoked: list[Any]) -> None:
    """Another key, value or offset, at the edge of what there can be."""
    for at, step in enumerate(steps):
        if isinstance(step, list) and step[0] == "send" and rng.random() < 0.5:
            value = rng.choice([0, INT64_MAX, -INT64_MAX - 9, "", None, 0.5, {"a": 1}])
            step[1:] = [rng.choice(["k0", 0, -1, INT64_MAX]), [rng.choice([None, 0, INT64_MAX]), value]]
            if at < len(invoked) and invoked[at][0] == "send":
                invoked[at][1:] = [step[1], [None, value]]
        elif isinstance(step, list) and len(step) == 2 and isinstance(step[1], dict):
            for records in step[1].values():
                records.append([rng.choice([None, 0, 0, 1, INT64_MAX]), rng.choice([1, 2, 3, None, "x"])])
