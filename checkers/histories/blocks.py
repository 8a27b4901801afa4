"""Read history files in blocks, so that several processes can share a file.

A block is a part of a plain file, or a whole gzipped file. The first bytes of a file show that it is gzipped; its name
does not matter.

A line belongs to the block in which it begins. The number of a block's first line is not known until all blocks are
read. So each block counts its lines from 0, and its last row has the number of its lines.
"""

import codecs
import gzip
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checkers.histories.files import GZIP, SUFFIXES, require_suffix
from checkers.histories.lines import ONE_EVENT, parse
from harness.common.errors import UnreadableInput
from harness.model.vocabulary import EventType
from harness.record.history_form import EVENTS

OTHER_SENDS = "this completion has other sends than its invocation: keys and values must be equal"
BLOCK_BYTES = 8 << 20
LINE_LIMIT_BYTES = 32 << 20  # the decoded line needs about ten times as much memory
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
LOOK_BYTES = 64 << 10
"""The size of the text to read, after decompression."""
WIDE_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


@dataclass(frozen=True)
class Block:
    """A part of a file. One process reads it."""

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


def write_block(block: Block, path: Path) -> None:
    """Write the rows of a block to an Arrow file."""
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, BLOCK_ROWS) as writer:
        for rows in read_block(block):
            writer.write_batch(rows)


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


def require_readable(path: Path) -> None:
    """Raise an error if the name or the first LOOK_BYTES show that the file is not a history.

    The first event must be readable. `blocks.read_block` reports errors of later lines.

    Raises:
        UnreadableInput: The file is not a history. If a line is the reason, the message has its number.
    """
    block = blocks_of(0, path)[0]
    try:
        text, is_whole = _beginning(block)
    except OSError as error:
        raise UnreadableInput(f"{path} cannot be read: {error.strerror}") from error
    if text.startswith(WIDE_MARKS):
        raise UnreadableInput(
            f"{path} is UTF-16, but UTF-8 is expected: `iconv -f UTF-16 -t UTF-8 FILE > EVENTS{path.suffix}` "
            "converts it"
        )
    text = text.removeprefix(BYTE_ORDER_MARK)
    _require_utf8(text, is_whole)
    lines = text.split(b"\n")
    for number, line in enumerate(lines if is_whole else lines[:-1], 1):
        if not line.strip() or (block.edn and line.lstrip().startswith(b";")):
            continue
        for error_text in parse([line], edn=block.edn)["error"].to_pylist():
            if error_text is not None:
                raise UnreadableInput(f"line {number}: {error_text}")
            return
    if is_whole:
        raise UnreadableInput(f"{path} has no event: {ONE_EVENT}")


def _beginning(block: Block) -> tuple[bytes, bool]:
    """Return the first LOOK_BYTES of text, and whether the file ends there."""
    parts: list[bytes] = []
    room = LOOK_BYTES
    with gzip.open(block.path) if block.gzipped else Path(block.path).open("rb") as file:
        try:
            while room and (data := file.read1(room)):
                parts.append(data)
                room -= len(data)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            if not parts:
                raise UnreadableInput(f"the gzip data is damaged or cut off after line 0: {error}") from error
            return b"", False  # the text before the damage may be damaged too
    return b"".join(parts), room > 0


def _require_utf8(text: bytes, is_whole: bool) -> None:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(text, is_whole)
    except UnicodeDecodeError as error:
        before = text[: error.start]
        line, byte = before.count(b"\n") + 1, error.start - before.rfind(b"\n")
        raise UnreadableInput(f"line {line}: this is not UTF-8, at byte {byte}") from None


def invocations_with_sends(events: pa.RecordBatch) -> int:
    """Return the number of invocations with sends."""
    lengths = pc.fill_null(pc.list_value_length(events["sends"]), 0)
    invoked = pc.equal(events["type"], EventType.INVOKE.value)
    return pc.sum(pc.and_(invoked, pc.greater(lengths, 0))).as_py() or 0


def without_repeated_sends(events: pa.RecordBatch) -> tuple[pa.RecordBatch, int | None]:
    """Remove the sends of each invocation whose completion is in the same batch and repeats them.

    A completion without sends does not repeat them. If the kind (`f`) of a completion differs from the kind of its
    invocation, the pair is not changed, and the caller reports it.

    Returns:
        The events, and the line of the first completion with other sends than its invocation, or None.
    """
    types, processes, kinds = (events[name].to_pylist() for name in ("type", "process", "f"))
    sends = events["sends"]
    has_sends = sends.is_valid().to_pylist()
    open_rows: dict[int, int] = {}
    pairs: list[tuple[int, int]] = []
    for row, (kind, process) in enumerate(zip(types, processes, strict=True)):
        if kind == EventType.INVOKE.value:
            open_rows[process] = row
        elif process in open_rows:
            invoked = open_rows.pop(process)
            if has_sends[row] and kinds[row] == kinds[invoked]:
                pairs.append((invoked, row))
    repeated = np.zeros(len(events), bool)
    repeated[[invoked for invoked, _ in pairs]] = True
    wrong = _first_that_differs(sends, pairs)
    line = None if wrong is None else events["line"][wrong].as_py()
    null = pc.or_(pa.array(repeated), sends.is_null())
    records = sends.flatten().filter(pc.invert(pa.array(repeated).take(pc.list_parent_indices(sends))))
    lengths = pc.if_else(null, 0, pc.fill_null(pc.list_value_length(sends), 0)).to_numpy(zero_copy_only=False)
    starts = np.concatenate(([0], np.cumsum(lengths)))
    unrepeated = pa.ListArray.from_arrays(pa.array(starts, pa.int32()), records, mask=null)
    return events.set_column(events.schema.get_field_index("sends"), EVENTS.field("sends"), unrepeated), line


def _first_that_differs(sends: pa.ListArray, pairs: Sequence[tuple[int, int]]) -> int | None:
    """Return the row of the first completion with other keys or values than its invocation, or None.

    An invocation without sends is not compared.
    """
    if not pairs:
        return None
    invoked, completed = np.array(pairs).T
    starts = sends.offsets.to_numpy()
    lengths = np.diff(starts)
    alike = lengths[invoked] == lengths[completed]
    wrong = completed[~alike & (lengths[invoked] > 0)].tolist()
    invocations, completions = invoked[alike], completed[alike]
    counts = lengths[invocations]
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    left, right = (np.repeat(starts[rows], counts) + within for rows in (invocations, completions))
    differs = np.zeros(len(left), bool)
    for name in ("key", "value"):
        column = sends.values.field(name).to_numpy()
        differs |= column[left] != column[right]
    wrong += np.repeat(completions, counts)[differs].tolist()
    return min(wrong, default=None)
