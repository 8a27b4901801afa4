"""Read history files in blocks, so that several tasks of Spark can share a file.

A block is a part of a plain file, or a whole gzipped file. The first bytes of a file show that it is gzipped; its name
does not matter.

A line belongs to the block in which it begins. The number of a block's first line is not known until all blocks are
read. So each block counts its lines from 0, and its last row has the number of its lines.
"""

import gzip
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pyarrow as pa

from harness.common.errors import UnreadableInput
from harness.history_files.convert_lines import parse
from harness.history_files.pairs import OTHER_SENDS, invocations_with_sends, without_repeated_sends
from harness.history_files.schema import EVENTS

SUFFIXES = {".jsonl": False, ".json": False, ".edn": True}
BLOCK_BYTES = 8 << 20
LINE_LIMIT_BYTES = 32 << 20  # the decoded line needs about ten times as much memory
GZIP = b"\x1f\x8b"  # the first bytes of gzip data
BYTE_ORDER_MARK = b"\xef\xbb\xbf"

BLOCK_ROWS = pa.schema(
    [
        ("run", pa.int64()),
        ("block", pa.int64()),
        *EVENTS,
        # Only in the last row of a block:
        ("lines", pa.int64()),  # the number of its lines
        ("named", pa.int64()),  # the number of names in its events
        ("waiting", pa.int64()),  # the number of invocations that still have their sends
    ]
)
"""The rows of EVENTS without errors, and a last row for each block.

If the completion of an invocation in the same block repeats its sends, the sends of the invocation are null. The last
row of a block has the block's first error, with its line.
"""


@dataclass(frozen=True)
class Block:
    """A part of a file. One task of Spark reads it."""

    run: int
    block: int  # counted from 0 within the file
    path: str
    start: int  # bytes
    end: int
    edn: bool
    gzipped: bool

    @property
    def cost(self) -> int:
        """The approximate size of the text to parse, in bytes."""
        return (self.end - self.start) * (8 if self.gzipped else 1)


def require_suffix(path: Path) -> str:
    """Return the suffix of the name of a history, without `.gz`. Raises `UnreadableInput`."""
    kind = (path.with_suffix("") if path.suffix == ".gz" else path).suffix
    if kind not in SUFFIXES:
        known = ", ".join(SUFFIXES)
        raise UnreadableInput(
            f"{path} is not a history: a history's name ends in {known}, or in one of these and .gz"
        )
    return kind


def is_gzipped(path: Path) -> bool:
    """Return whether the first bytes of the file are those of gzip data. Its name does not matter. Raises OSError."""
    with path.open("rb") as file:
        return file.read(len(GZIP)) == GZIP


def blocks_of(run: int, path: Path, block_bytes: int = BLOCK_BYTES) -> list[Block]:
    """Return the blocks of a file. Raises `UnreadableInput`."""
    kind = require_suffix(path)
    if path.exists() and not path.is_file():
        raise UnreadableInput(f"{path} is not a regular file: write the history to a file first")
    try:
        with path.open("rb") as file:
            first_bytes = file.read(len(GZIP))
            size = file.seek(0, 2)
    except OSError as error:
        raise UnreadableInput(f"{path} cannot be read: {error.strerror}") from error
    named = path.suffix == ".gz"
    if named and not GZIP.startswith(first_bytes):
        raise UnreadableInput(
            f"{path} is not a gzip file, but its name ends in .gz: if it is not compressed, remove .gz from its name"
        )
    gzipped = named or first_bytes == GZIP
    step = size if gzipped else block_bytes
    starts = range(0, size, step) if size else [0]
    return [
        Block(run, number, str(path.absolute()), start, min(start + step, size), SUFFIXES[kind], gzipped)
        for number, start in enumerate(starts)
    ]


def read_block(block: Block) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a block as BLOCK_ROWS. The last row has the block's first error."""
    lines = named = waiting = 0
    error: tuple[int | None, str] | None = None
    try:
        for chunk in _lines(block):
            events = parse(chunk, edn=block.edn, first_line=lines)
            lines += len(chunk)
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
            events, wrong_line = without_repeated_sends(events)
            waiting += invocations_with_sends(events)
            if wrong_line is not None:
                wrong.append((wrong_line, OTHER_SENDS))
            if wrong:
                error = error or min(wrong)
            yield _as_block_rows(events, block)
    except _TooLong:
        error = error or (lines, f"the line is longer than {LINE_LIMIT_BYTES >> 20} MiB")
    except (EOFError, zlib.error, gzip.BadGzipFile) as damage:
        # This replaces the error of an earlier line, because damaged data may be read as wrong text at first.
        error = (None, f"the gzip data is damaged or cut off after line {lines}: {damage}")
    except OSError as failure:
        error = error or (None, f"{block.path} cannot be read: {failure.strerror}")
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
    """The next line is longer than the limit."""


def _as_block_rows(events: pa.RecordBatch, block: Block) -> pa.RecordBatch:
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
    """Yield the lines that begin in the block, in chunks, without their line ends."""
    if not block.gzipped:
        with Path(block.path).open("rb") as file:
            yield from _within_limit(_plain_lines(file, block.start, block.end))
        return
    if block.end == 0:
        raise EOFError("it is empty")
    with gzip.open(block.path, "rb") as file:
        yield from _all_lines(file)


def _plain_lines(file: IO[bytes], start: int, end: int) -> Sequence[bytes]:
    """Return the lines that begin at `start` or later, and before `end`."""
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
    """Yield all lines of a stream. If it is damaged, yield the lines before the damage, and raise the error."""
    rest: list[bytes] = []
    rest_bytes, is_first = 0, True
    for piece in _as_far_as_possible(file):
        data, is_first = piece.removeprefix(BYTE_ORDER_MARK) if is_first else piece, False
        cut = data.rfind(b"\n") + 1
        if cut:
            yield from _within_limit(_split(b"".join([*rest, data[:cut]])))
            rest, rest_bytes = [], 0
        rest.append(data[cut:])
        rest_bytes += len(data) - cut
        if rest_bytes > LINE_LIMIT_BYTES:
            raise _TooLong
    if rest_bytes:
        yield _split(b"".join(rest))


def _as_far_as_possible(file: gzip.GzipFile) -> Iterator[bytes]:
    """Yield a stream in pieces of at most BLOCK_BYTES. If it is damaged, yield the data before that, then raise."""
    failure: Exception | None = None
    while failure is None:
        parts: list[bytes] = []
        room = BLOCK_BYTES
        try:
            while room and (data := file.read1(room)):
                parts.append(data)
                room -= len(data)
        except (EOFError, OSError, zlib.error) as error:
            failure = error
        if parts:
            yield b"".join(parts)
        elif failure is None:
            return
    raise failure


def _split(data: bytes) -> list[bytes]:
    lines = data.split(b"\n")
    return lines[:-1] if not lines[-1] else lines


def _within_limit(lines: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    """Yield the lines. If a line is too long, yield the lines before it, and raise `_TooLong`."""
    for number, line in enumerate(lines):
        if len(line) > LINE_LIMIT_BYTES:
            yield lines[:number]
            raise _TooLong
    yield lines
