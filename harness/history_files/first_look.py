"""Read the beginning of a history file, so that Spark is not started for a file that cannot be read."""

import codecs
import gzip
import zlib
from pathlib import Path

from harness.common.errors import UnreadableInput
from harness.history_files.blocks import BYTE_ORDER_MARK, Block, blocks_of
from harness.history_files.convert_lines import parse
from harness.history_files.event import ONE_EVENT

LOOK_BYTES = 64 << 10
"""The size of the text to read, after decompression."""
WIDE_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


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
