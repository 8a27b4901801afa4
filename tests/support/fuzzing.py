"""Random history files: random bytes, changed valid files, and events with any content that the format permits.

This file has the properties that must hold of each. `tests/unit` tries a few hundred files, `tests/chaos` many more.
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

from checkers.histories.blocks import BLOCK_ROWS, BYTE_ORDER_MARK, OTHER_SENDS, blocks_of, read_block
from checkers.histories.files import GZIP, SUFFIXES
from harness.common.errors import UnreadableInput
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


def serialize(kind: str, events: Iterable[dict[str, Any]]) -> bytes:
    """The events in the format of a file suffix."""
    return (to_edn(events) if SUFFIXES[kind] else to_jsonl(events)).encode()


@st.composite
def histories(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Events of a correct broker, with planted anomalies and random changes."""
    rng = Random(draw(st.integers(0, 1 << 30)))
    plant = draw(st.sets(st.sampled_from(["duplicate", "lost-write", "poll-skip", "G1c"]), max_size=2))
    events = random_history(rng, draw(st.integers(1, 12)), plant)
    return bent(rng, events, draw(st.integers(0, 5)))


@st.composite
def changed_bytes(draw: st.DrawFn, body: bytes) -> bytes:
    """Bytes with up to four changes: cut, flip a bit, remove, repeat, move, insert."""
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
    """The name and the content of a file."""
    kind = draw(st.sampled_from(sorted(SUFFIXES)))
    body = draw(st.binary(max_size=200)) if draw(st.booleans()) else serialize(kind, draw(histories()))
    body = draw(changed_bytes(body))
    if not draw(st.booleans()):
        return f"h{kind}", body
    packed = gzip.compress(body, 1)
    if draw(st.booleans()):
        packed += gzip.compress(body, 0)
    return f"h{kind}.gz", draw(changed_bytes(packed)) if draw(st.booleans()) else packed


def read(path: Path, block_bytes: int = 1 << 20) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The rows of all blocks with line numbers in the file, and the last row of each block."""
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
    """The line number, from 0, and the message; None if the whole file could be read."""
    return next(((end["line"], end["error"]) for end in ends if end["error"] is not None), None)


def check_file(name: str, body: bytes) -> None:
    """Assert that a file yields rows, or an error with its line number, for any size of blocks."""
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
        text, complete = decompress(body) if packed else (body, True)
        text = text.removeprefix(BYTE_ORDER_MARK)
        lines = len(text.removesuffix(b"\n").split(b"\n")) if text else 0
        if complete:
            assert sum(end["lines"] for end in ends) == lines
        assert all(0 <= number < max(lines, 1) for number in numbers)
        error = first_error(ends)
        if error is not None and error[1] == OTHER_SENDS:
            return  # it concerns two lines, which may be in two blocks: `checkers.histories.read_files` finds it
        assert complete or error is not None
        if error is not None:
            line, message = error
            assert message and "\n" not in message and len(message) < 400, message
            assert line is not None or not complete, message
            assert line is None or (0 <= line < lines and line not in numbers), message
        if complete and not packed:
            in_parts = read(path, 1 + len(body) // 5)
            assert first_error(in_parts[1]) == error
            assert list(map(comparable, in_parts[0])) == list(map(comparable, events))


def decompress(body: bytes) -> tuple[bytes, bool]:
    """The content of a gzip file as far as it can be read, and whether that is all of it."""
    try:
        return gzip.decompress(body), bool(body)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        pass
    text, rest = b"", body
    while rest:
        if len(rest) > 3:  # undefined flags: zlib refuses them, and Python's gzip ignores them
            rest = rest[:3] + bytes([rest[3] & 0x1F]) + rest[4:]
        member = zlib.decompressobj(31)
        try:
            while rest and not member.eof:
                text += member.decompress(rest[:1])
                rest = rest[1:]
        except zlib.error:
            break
        rest = (member.unused_data + rest).lstrip(b"\0")
    return text, False


def comparable(event: dict[str, Any]) -> dict[str, Any]:
    """The columns of an event that do not depend on the other events in its block."""
    dependent = {"names", "block"} | ({"sends"} if event["type"] == "invoke" else set())
    return {column: value for column, value in event.items() if column not in dependent}


KEYS = st.one_of(
    st.integers(-(1 << 70), 1 << 70), st.text(max_size=6).filter(lambda text: not is_integer_text(text))
)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(1 << 70), 1 << 70), st.text(max_size=6), st.floats(-1e15, 1e15)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=5,
)
OFFSETS = st.one_of(st.none(), st.integers(0, 9), st.integers(0, (1 << 63) - 1))


def is_integer_text(text: str) -> bool:
    """Whether the reader would take this text as a number if it is a key in JSON."""
    return text.removeprefix("-").isdigit()


def draw_micro_operations(draw: st.DrawFn) -> list[Any]:
    """The micro-operations of a transaction."""
    steps: list[Any] = []
    for _ in range(draw(st.integers(0, 4))):
        value = draw(VALUES)
        if draw(st.booleans()):
            bare = draw(st.booleans()) and not isinstance(value, list)
            steps.append(["send", draw(KEYS), value if bare else [draw(OFFSETS), value]])
        else:
            records = st.lists(st.tuples(OFFSETS, VALUES).map(list), max_size=3)
            steps.append(["poll", draw(st.dictionaries(KEYS, records, max_size=2))])
    return steps


@st.composite
def any_events(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Events with anything that the format permits. They need not be a possible history."""
    events: list[dict[str, Any]] = []
    for _ in range(draw(st.integers(1, 6))):
        event: dict[str, Any] = {
            "process": draw(st.one_of(st.integers(-9, 1 << 60), st.just("nemesis"))),
            "type": draw(st.sampled_from(["invoke", "ok", "fail", "info"])),
            "f": draw(st.sampled_from(["txn", "send", "poll", "assign", "subscribe", "crash", "other"])),
        }
        if event["type"] != "invoke" and event["process"] != "nemesis":
            event["process"] += 1 << 61  # so that no completion belongs to an invocation in this file
        keyed = event["f"] in ("assign", "subscribe")
        event["value"] = draw(st.lists(KEYS, max_size=3)) if keyed else draw_micro_operations(draw)
        if draw(st.booleans()):
            event["isolation"] = draw(st.sampled_from(["read_committed", "read_uncommitted"]))
        if draw(st.booleans()):
            event["rebalance-log"] = [{"keys": draw(st.lists(KEYS, max_size=2))}]
        events.append(event)
    return numbered(events)


def check_both_formats(events: list[dict[str, Any]]) -> None:
    """Assert that events yield the same rows and names from JSON Lines and from EDN."""
    results = []
    for name, body in (("h.jsonl", to_jsonl(events)), ("h.edn", to_edn(events))):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / name
            path.write_text(body, encoding="utf-8")
            rows, ends = read(path)
            assert first_error(ends) is None, (first_error(ends), body)
            assert len(rows) == len(events)
            names = {(name["id"], name["text"]) for row in rows for name in row["names"] or ()}
            assert len(names) <= sum(end["named"] for end in ends)
            results.append(([{**row, "names": None} for row in rows], names))
    assert results[0] == results[1]


def mangle(rng: Random, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Change events at random. Each line can still be read, but the history need not make sense."""
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
            _use_extreme_values(rng, events[at]["value"], _invocation(events, at))
    return events


def _invocation(events: list[dict[str, Any]], at: int) -> list[Any]:
    """The steps of the last event of the same process before this one."""
    before = (event for event in reversed(events[:at]) if event["process"] == events[at]["process"])
    value = next(before, {}).get("value")
    return value if isinstance(value, list) else []


def _use_extreme_values(rng: Random, steps: list[Any], invoked: list[Any]) -> None:
    """Replace keys, values and offsets with extreme ones."""
    for at, step in enumerate(steps):
        if isinstance(step, list) and step[0] == "send" and rng.random() < 0.5:
            value = rng.choice([0, INT64_MAX, -INT64_MAX - 9, "", None, 0.5, {"a": 1}])
            step[1:] = [rng.choice(["k0", 0, -1, INT64_MAX]), [rng.choice([None, 0, INT64_MAX]), value]]
            if at < len(invoked) and invoked[at][0] == "send":
                invoked[at][1:] = [step[1], [None, value]]
        elif isinstance(step, list) and len(step) == 2 and isinstance(step[1], dict):
            for records in step[1].values():
                records.append([rng.choice([None, 0, 0, 1, INT64_MAX]), rng.choice([1, 2, 3, None, "x"])])
