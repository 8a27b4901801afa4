"""History files in blocks: a part of a plain file, or the whole of a gzipped one, read by whoever gets it.

A file is gzipped if its first bytes say so, whatever its name is.

A line belongs to the block in which it begins. Nobody knows a block's first line before all blocks are
read, so lines are counted from 0 in each, and the last row of a block says how many there were.
"""

import gzip
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pyarrow as pa

from harness.common.errors import UnreadableInput
from harness.history_files.lines import parse
from harness.history_files.pairs import OTHER_SENDS, invocations_with_sends, without_repeated_sends
from harness.history_files.schema import EVENTS

SUFFIXES = {".jsonl": False, ".json": False, ".edn": True}
BLOCK_BYTES = 8 << 20
LINE_LIMIT_BYTES = 32 << 20  # what it decodes to takes some ten times as much
GZIP = b"\x1f\x8b"  # how such data begins
BYTE_ORDER_MARK = b"\xef\xbb\xbf"

BLOCK_ROWS = pa.schema(
    [
        ("run", pa.int64()),
        ("block", pa.int64()),
        *EVENTS,
        ("lines", pa.int64()),  # only in the last row of a block: how many it had
        ("named", pa.int64()),  # likewise: how many names its events have
        ("waiting", pa.int64()),  # likewise: how many invocations still have the sends that they began with
    ]
)
"""EVENTS without rows that have an error, and without the sends of invocations whose completion was seen to tell
them again; the last row of a block has its first error, with the line."""


@dataclass(frozen=True)
class Block:
    """What is read together."""

    run: int
    block: int  # counted from 0 within the file
    path: str
    start: int  # bytes
    end: int
    edn: bool
    gzipped: bool

    @property
    def cost(self) -> int:
        """About how many bytes of text there are to parse."""
        return (self.end - self.start) * (8 if self.gzipped else 1)


def require_suffix(path: Path) -> str:
    """What the name of a history ends in, but for `.gz`; raises `UnreadableInput`."""
    kind = (path.with_suffix("") if path.suffix == ".gz" else path).suffix
    if kind not in SUFFIXES:
        known = ", ".join(SUFFIXES)
        raise UnreadableInput(
            f"{path} is not a history: a history's name ends in {known}, or in one of these and .gz"
        )
    return kind


def is_gzipped(path: Path) -> bool:
    """Whether the file begins as gzip data does, whatever its name is; raises OSError."""
    with path.open("rb") as file:
        return file.read(len(GZIP)) == GZIP


def blocks_of(run: int, path: Path, block_bytes: int = BLOCK_BYTES) -> list[Block]:
    """The blocks of a file; raises `UnreadableInput` if it is none that can be read."""
    kind = require_suffix(path)
    if path.exists() and not path.is_file():
        raise UnreadableInput(f"{path} is no file that can be read twice")  # a pipe, or a device
    try:
        with path.open("rb") as file:
            begins = file.read(len(GZIP))
            size = file.seek(0, 2)
    except OSError as error:
        raise UnreadableInput(f"{path} cannot be read: {error.strerror}") from error
    named = path.suffix == ".gz"
    if named and not GZIP.startswith(begins):
        raise UnreadableInput(
            f"{path} is no gzip file, though its name ends in .gz: if it is not compressed, remove .gz from its name"
        )
    gzipped = named or begins == GZIP
    step = size if gzipped else block_bytes
    starts = range(0, size, step) if size else [0]
    return [
        Block(run, number, str(path.absolute()), start, min(start + step, size), SUFFIXES[kind], gzipped)
        for number, start in enumerate(starts)
    ]


def read_block(block: Block) -> Iterator[pa.RecordBatch]:
    """The block's rows as BLOCK_ROWS; what cannot be read is told in the last."""
    lines = named = waiting = 0
    error: tuple[int | None, str] | None = None
    try:
        for some in _lines(block):
            events = parse(some, edn=block.edn, first_line=lines)
            lines += len(some)
            named += len(events["names"].flatten())
            wrong = [
                (row["line"], row["error"])
                for row in (
                    events.select(["line", "error"]).to_pylist()
                    if events["error"].null_count < len(events)
                    else ()
                )
                if row["error"]
            ]
            if wrong:
                events = events.filter(events["error"].is_null())
            events, other = without_repeated_sends(events)
            waiting += invocations_with_sends(events)
            if other is not None:
                wrong.append((other, OTHER_SENDS))
            if wrong:
                error = error or min(wrong)
            yield _placed(events, block)
    except _TooLong:
        error = error or (lines, f"the line is longer than {LINE_LIMIT_BYTES >> 20} MiB")
    except (EOFError, zlib.error, gzip.BadGzipFile) as found:
        # Whatever was wrong with a line before: what is damaged is read as something else at first.
        error = (None, f"the gzip data is damaged or cut off after line {lines}: {found}")
    except OSError as found:
        error = error or (None, f"{block.path} cannot be read: {found.strerror}")
    line, message = error or (None, None)
    last = {
        "run": block.run,
        "block": block.block,
        "line": line,
        "error": message,
        "lines": lines,
        "named": named,
        "waiting": waiting,
    }
    yield pa.RecordBatch.from_pylist([last], schema=BLOCK_ROWS)


class _TooLong(ValueError):
    """The line after those that were handed on is longer than the limit."""


def _placed(events: pa.RecordBatch, block: Block) -> pa.RecordBatch:
    size = len(events)
    return pa.RecordBatch.from_arrays(
        [
            pa.repeat(pa.scalar(block.run, pa.int64()), size),
            pa.repeat(pa.scalar(block.block, pa.int64()), size),
            *events.columns,
            *[pa.nulls(size, pa.int64())] * (len(BLOCK_ROWS) - len(EVENTS) - 2),
        ],
        schema=BLOCK_ROWS,
    )


def _lines(block: Block) -> Iterator[Sequence[bytes]]:
    """The lines that begin in the block, some at a time, without their ends."""
    if not block.gzipped:
        with Path(block.path).open("rb") as file:
            yield from _within_limit(_plain_lines(file, block.start, block.end))
        return
    if block.end == 0:
        raise EOFError("it is empty")
    with gzip.open(block.path, "rb") as file:
        yield from _all_lines(file)


def _plain_lines(file: IO[bytes], start: int, end: int) -> Sequence[bytes]:
    """The lines that begin at `start` or later, and before `end`."""
    if start == end:
        return []
    file.seek(max(start - 1, 0))
    data = file.read(end - max(start - 1, 0))
    if start:
        begin = data.find(b"\n") + 1
        if begin in {0, len(data)}:
            return []
        data = data[begin:]
    if not data.endswith(b"\n"):
        before = len(data) - data.rfind(b"\n") - 1
        data += file.readline(max(0, LINE_LIMIT_BYTES - before) + 1)
    return _split(data if start else data.removeprefix(BYTE_ORDER_MARK))


def _all_lines(file: gzip.GzipFile) -> Iterator[Sequence[bytes]]:
    """All lines of a stream, which are read as far as it can be read."""
    rest: list[bytes] = []
    held, first = 0, True
    for read in _as_far_as_possible(file):
        data, first = read.removeprefix(BYTE_ORDER_MARK) if first else read, False
        cut = data.rfind(b"\n") + 1
        if cut:
            yield from _within_limit(_split(b"".join([*rest, data[:cut]])))
            rest, held = [], 0
        rest.append(data[cut:])
        held += len(data) - cut
        if held > LINE_LIMIT_BYTES:
            raise _TooLong
    if held:
        yield _split(b"".join(rest))


def _as_far_as_possible(file: gzip.GzipFile) -> Iterator[bytes]:
    """A stream in pieces of at most BLOCK_BYTES; of a damaged one what comes before, and then the error."""
    trouble: Exception | None = None
    while trouble is None:
        parts: list[bytes] = []
        room = BLOCK_BYTES
        try:
            while room and (data := file.read1(room)):
                parts.append(data)
                room -= len(data)
        except (EOFError, OSError, zlib.error) as error:
            trouble = error
        if parts:
            yield b"".join(parts)
        elif trouble is None:
            return
    raise trouble


def _split(data: bytes) -> list[bytes]:
    lines = data.split(b"\n")
    return lines[:-1] if not lines[-1] else lines


def _within_limit(lines: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    """The lines; if one is too long, those before it, and then `_TooLong` is raised."""
    for number, line in enumerate(lines):
        if len(line) > LINE_LIMIT_BYTES:
            yield lines[:number]
            raise _TooLong
    yield lines
