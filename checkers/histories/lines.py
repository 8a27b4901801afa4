"""Convert lines of a history to a batch of EVENTS. A line with an error becomes a row, and raises no exception."""

import json
import re
from collections.abc import Iterator, Sequence

import orjson
import pyarrow as pa

from checkers.histories.edn import EdnError, decode_usual, read_all
from checkers.histories.event import (
    HOW_TO_SPLIT_EDN,
    HOW_TO_SPLIT_JSON,
    HOW_TO_TAKE_JSON,
    ONE_EVENT,
    EventError,
    Events,
)
from checkers.histories.names import Decoded, shown
from harness.common.documents import each_key_once, no_constant

MANY_DIGITS = re.compile(rb"[0-9]{16}")
SPACES_BEFORE_COLON = (b" :", b"\t:", b"\r:")
TOO_DEEP = {  # the messages of several versions of the decoder
    "depth limit exceeded",
    "failed to allocate memory",
    "array and object recursion depth exceeded",
}
LIST_IN_LINES = f"{ONE_EVENT}, but this is part of a list over several lines"
EVENT_IN_LINES = f"{ONE_EVENT}, but this is part of an event over several lines, or an event that is cut off"
HOW_TO_JOIN = "`jq -c . FILE > EVENTS.jsonl` writes each event on its own line"
LIST_OF_MAP = re.compile(rb'\{\s*"(\w+)"\s*:\s*\[[\s{]*')
"""The first line of a map that has the events in a list."""
AMBIGUOUS = {"unexpected end of data", "unexpected content after document"}
"""Errors of the decoder that may mean that an event is not alone on its line."""


def parse(lines: Sequence[bytes], *, edn: bool, first_line: int = 0) -> pa.RecordBatch:
    """Return a row of EVENTS for each line that is not blank.

    Args:
        lines: The lines, without their line ends. In EDN, a line with only a comment is blank as well.
        edn: The lines are EDN; otherwise they are JSON.
        first_line: The number of the first line, for the column `line`.
    """
    events = Events(json_keys=not edn)
    decoded = decode_usual([_text(line) for line in lines]) if edn else _json(lines)
    exactly = _edn_exactly if edn else _json_exactly
    for number, (raw, event) in enumerate(zip(lines, decoded, strict=True), first_line):
        try:
            if event is not None:
                try:
                    events.add(number, event)
                    continue
                except EventError:
                    if not edn and not MANY_DIGITS.search(raw):
                        raise
            for value in exactly(raw):
                events.add(number, value)
        except EventError as error:
            events.columns.error(number, str(error))
    return events.columns.batch()


def _json(lines: Sequence[bytes]) -> Iterator[Decoded]:
    """Yield the event of each line, or None if `_json_exactly` has to read it. Integers beyond 2^64 become floats."""
    loads, wrong = orjson.loads, orjson.JSONDecodeError
    for line in lines:
        try:
            event = loads(line)
        except wrong:
            yield None
        else:
            yield event if _each_once(line, event) else None


def _each_once(line: bytes, event: Decoded) -> bool:
    """Return True if no map has a key twice. The decoder would drop one of them.

    The check is fast and only for usual events. For other events it returns False.
    """
    if type(event) is not dict:
        return True
    steps = event.get("value")
    many = len(event)
    for step in steps if type(steps) is list else ():
        if type(step) is list and step and type(step[-1]) is dict:
            many += len(step[-1])
    return line.count(b'":') == many and not any(space in line for space in SPACES_BEFORE_COLON)


def _require_written(line: bytes) -> None:
    """Raise `EventError` if a line ends in zeros: nothing was written there, or a crash has lost it."""
    if line.endswith(b"\0"):
        raise EventError(
            "this line ends in bytes that are zero, as after a crash of a machine or in a file of a fixed size: if no "
            "event is missing, `tr -d '\\000' < FILE > EVENTS` removes them"
        )


def _json_exactly(raw: bytes) -> list[Decoded]:
    """Return a list with the value on the line. Integers keep all digits. The list is empty if the line is blank."""
    line = raw.strip(b" \t\r\n")
    if not line:
        return []
    _require_written(line)
    try:
        value = orjson.loads(line)
        if MANY_DIGITS.search(line) or not _each_once(line, value):
            value = json.loads(line, parse_constant=no_constant, object_pairs_hook=each_key_once)
        return [value]
    except orjson.JSONDecodeError as error:
        raise EventError(_not_json(line, error)) from None
    except RecursionError:
        raise EventError("this is not JSON that can be read: it is nested too deeply") from None
    except ValueError as error:
        raise EventError(f"this is not JSON that can be read: {error}") from None


def _not_json(line: bytes, error: orjson.JSONDecodeError) -> str:
    """Return the message for a line that is not JSON. If it has only a part of an event or a list, say what to do."""
    is_part = error.pos >= len(line) or not line.startswith((b"{", b"["))
    if is_part and (of_map := LIST_OF_MAP.fullmatch(line)):
        return f"{LIST_IN_LINES}: {HOW_TO_TAKE_JSON.format(name=of_map[1].decode())}"
    if is_part and (line in {b"]", b"}"} or line.endswith((b"{", b"[", b"}", b","))):
        if line.startswith((b"[", b"]")):
            return f"{LIST_IN_LINES}: {HOW_TO_SPLIT_JSON}"
        return f"{EVENT_IN_LINES}: {HOW_TO_JOIN}"
    reason = "it is nested too deeply" if error.msg in TOO_DEEP else error.msg
    hint = f"; {ONE_EVENT}: {HOW_TO_JOIN}" if error.msg in AMBIGUOUS else ""
    return f"this is not JSON: {reason}, at character {error.pos + 1}{hint}"


def _edn_exactly(raw: bytes) -> list[Decoded]:
    """Return a list with the value on the line. The list is empty if there is no value."""
    text = _text(raw)
    _require_written(raw)
    if "\N{REPLACEMENT CHARACTER}" in text:
        try:
            raw.decode()
        except UnicodeDecodeError as error:
            raise EventError(f"this is not UTF-8, at byte {error.start + 1}") from None
    try:
        values = read_all(text)
    except EdnError as error:
        if text.strip() in {"[", "]"} or (text.lstrip().startswith("[") and "never closed" in str(error)):
            raise EventError(f"{LIST_IN_LINES}: {HOW_TO_SPLIT_EDN}") from None
        hint = f"; {ONE_EVENT}: {HOW_TO_SPLIT_EDN}" if "never closed" in str(error) else ""
        raise EventError(f"this is not EDN: {error}{hint}") from None
    if len(values) > 1:
        if values[1] == "]" or not isinstance(values[1], dict):
            raise EventError(f"{ONE_EVENT}, but after it comes {shown(values[1])}")
        raise EventError(f"{ONE_EVENT}, but this line has several: {HOW_TO_SPLIT_EDN}")
    return values


def _text(raw: bytes) -> str:
    return raw.decode(errors="replace")
