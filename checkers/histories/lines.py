"""Say what a line of a history means: decode it, validate its event, and convert it to a row of EVENTS.

A line with an error becomes a row with that error, and raises no exception. These are the rules for an event:

- A list in the place of a value always means `[offset, value]`. A value that is a list is written `[null, [...]]`.
- If a completion `fail` or `info` has no send, or has the value null, the sends of its invocation count.
- If such a completion of `assign` or `subscribe` has the value null, it has no key, and all positions are reset.
- A negative offset means that the offset is not known, as null does.
- `poll` steps of a `send`, and `send` steps of a `poll`, must be valid, but no checker reads them, as in Jepsen.
- The micro-operations of an event are not read if its process is not a number.

**Keys.** In JSON the keys of an object are strings, so `["poll", {"0": ...}]` may mean the key 0 or the key "0". So in
JSON a string that is the usual text of an integer means that integer, in sends, polls and lists of keys. A key must be
a string or an integer, because a key of another type could never be polled. In EDN a key keeps its type: 0 and "0" are
different.
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import orjson
import pyarrow as pa

from checkers.histories.edn import EdnError, decode_usual, read_all
from checkers.histories.names import Decoded, UnnameableValue, is_own_name, name_of, shown
from harness.common.documents import each_key_once, no_constant
from harness.model.vocabulary import EventType, Isolation
from harness.record.history_form import EFFECTIVE, EVENTS, OWN_NAME_LIMIT, POLLING, RECORD, SENDING

TYPES = frozenset(EventType)
ISOLATIONS = frozenset(Isolation)
INT64_MAX = (1 << 63) - 1
INTEGER_TEXT = re.compile(r"0|-?[1-9][0-9]{0,4299}")
"""Integers as programs write them, so "-0" does not match. Python reads at most 4,300 digits."""
KEYED = frozenset({"assign", "subscribe"})
STEPS = frozenset(EFFECTIVE)
ONE_EVENT = "one event a line is expected"
HOW_TO_SPLIT_JSON = "`jq -c '.[]' FILE > EVENTS.jsonl` writes each event of a list on its own line"
HOW_TO_TAKE_JSON = "`jq -c '.\"{name}\"[]' FILE > EVENTS.jsonl` writes each event of the list on its own line"
HOW_TO_SPLIT_EDN = "in Clojure, `(run! prn events)` writes each event on its own line"
UNSURE = frozenset({EventType.FAIL.value, EventType.INFO.value})
"""The types of completions that may leave out the sends. Their invocation has the sends."""
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


class EventError(ValueError):
    """An event is not valid. The message does not contain the number of the line."""


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


class Events:
    """Converts events to rows, one after the other.

    Args:
        json_keys: the file is JSON, so a key that is the text of an integer means that integer.
    """

    def __init__(self, *, json_keys: bool) -> None:
        self.columns = EventRows()
        self._json_keys = json_keys
        self._keys: dict[str, int] = {}
        self._texts: dict[str, int] = {}
        self._new_names: list[tuple[int, str]] = []

    def add(self, line: int, event: Decoded) -> None:
        """Append the row of an event. If it raises `EventError`, it appends nothing."""
        if not isinstance(event, dict):
            how = HOW_TO_SPLIT_JSON if self._json_keys else HOW_TO_SPLIT_EDN
            hint = f": {ONE_EVENT}; {how}" if isinstance(event, list) else ""
            raise EventError(f"an event is a map, not {shown(event)}{hint}")
        mark = self.columns.mark()
        try:
            self._add(line, event)
        except UnnameableValue as error:
            self.columns.back_to(mark)
            raise EventError(f"a key or value {error}") from None
        except EventError:
            self.columns.back_to(mark)
            raise

    def _add(self, line: int, event: dict[Any, Any]) -> None:
        kind = event.get("type")
        if kind is None and (name := _key_of_events(event)) is not None:
            how = HOW_TO_TAKE_JSON.format(name=name) if self._json_keys else HOW_TO_SPLIT_EDN
            raise EventError(f"{ONE_EVENT}, but this is a map with a list of events, {shown(name)}: {how}")
        if type(kind) is not str or kind not in TYPES:
            raise EventError(f"`type` is invoke, ok, fail or info, not {shown(kind)}")
        process = _integer(event, "process") if _is_numbered(event) else None
        f = event.get("f")
        if type(f) is not str and (process is not None or f is not None):
            raise EventError(f"`f` is the name of an operation, not {shown(f)}")
        keys = rebalanced = None
        without_sends = False
        before = len(self.columns.send_keys)
        if process is not None:
            if f in STEPS:
                steps = event.get("value")
                if steps is not None or kind not in UNSURE:
                    self._steps(steps, f in SENDING, f in POLLING)
                without_sends = kind in UNSURE and len(self.columns.send_keys) == before
            elif f in KEYED:
                named = event.get("value")
                keys = [] if named is None and kind in UNSURE else self._key_list(named, f"the value of {f}")
            if (log := event.get("rebalance-log")) is not None:
                rebalanced = self._rebalanced(log)
        isolation = event.get("isolation")
        if isolation is not None:
            isolation = isolation.replace("-", "_") if type(isolation) is str else isolation
            if type(isolation) is not str or isolation not in ISOLATIONS:
                raise EventError(f"`isolation` is {' or '.join(Isolation)}, not {shown(isolation)}")
        names, self._new_names = self._new_names or None, []
        index, time_ns = _integer(event, "index"), _integer(event, "time")
        row = line, index, time_ns, process, kind, f, keys, rebalanced, isolation, names
        self.columns.row(*row, without_sends=without_sends)

    def _steps(self, steps: Decoded, sending: bool, polling: bool) -> None:
        """Append the micro-operations of an operation."""
        if type(steps) is not list:
            raise EventError(f"`value` is a list of micro-operations, not {shown(steps)}")
        for step in steps:
            if type(step) is not list or not step:
                raise EventError(f"a micro-operation is a list, not {shown(step)}")
            name = step[0]
            if name == "send":
                self._sent(step, sending)
            elif name == "poll":
                if len(step) > 2:
                    raise EventError(f'a poll is ["poll", records], not {shown(step)}')
                if len(step) == 2 and step[1] is not None:
                    self._polled(step[1], polling)
            else:
                raise EventError(f"a micro-operation is a send or a poll, not {shown(step)}")

    def _sent(self, step: list[Any], sending: bool) -> None:
        """Append one send."""
        if len(step) != 3:
            raise EventError(f'a send is ["send", key, value], not {shown(step)}')
        _, key, value = step
        offset = None
        if type(value) is list:
            if len(value) != 2:
                raise EventError(f"a send has a value or [offset, value], not {shown(value)}")
            offset, value = value
            offset = _offset(offset)
        if type(key) is not int or not -OWN_NAME_LIMIT <= key <= OWN_NAME_LIMIT:
            key = self._key(key)
        if type(value) is not int or not -OWN_NAME_LIMIT <= value <= OWN_NAME_LIMIT:
            value = self._value(value)
        if sending:
            columns = self.columns
            columns.send_keys.append(key)
            columns.send_values.append(value)
            columns.send_offsets.append(offset)

    def _polled(self, result: Decoded, polling: bool) -> None:
        """Append the records that one poll returned."""
        if not isinstance(result, dict):
            raise EventError(f"a poll returns a map of keys to lists of [offset, value], not {shown(result)}")
        columns = self.columns
        keys, values, offsets = columns.poll_keys, columns.poll_values, columns.poll_offsets
        for raw_key, records in result.items():
            key = raw_key if type(raw_key) is int and is_own_name(raw_key) else self._key(raw_key)
            if type(records) is not list:
                raise EventError(f"a poll returns a list of [offset, value] for a key, not {shown(records)}")
            for record in records:
                if type(record) is not list or len(record) != 2:
                    raise EventError(f"a poll returns [offset, value], not {shown(record)}")
                offset, value = record
                if type(offset) is not int or not 0 <= offset <= INT64_MAX:
                    offset = _offset(offset)
                if type(value) is not int or not -OWN_NAME_LIMIT <= value <= OWN_NAME_LIMIT:
                    value = self._value(value)
                if polling:
                    keys.append(key)
                    values.append(value)
                    offsets.append(offset)

    def _key(self, key: Decoded) -> int:
        """Return the number of a key."""
        if type(key) is str:
            number_of_text = self._keys.get(key)
            if number_of_text is not None:
                return number_of_text
            key_value = int(key) if self._json_keys and INTEGER_TEXT.fullmatch(key) else key
            number_of_text = self._keys[key] = self._value(key_value)
            return number_of_text
        if key is None or (self._json_keys and type(key) is not int):
            raise EventError(f"a key is a string or an integer, not {shown(key)}")
        return self._value(key)

    def _value(self, value: Decoded) -> int:
        """Return the number of a value, or of a key that keeps its type."""
        if type(value) is int and is_own_name(value):
            return value
        if type(value) is str:
            number_of_text = self._texts.get(value)
            if number_of_text is None:
                number_of_text, text = name_of(value)
                self._texts[value] = number_of_text
                self._new_names.append((number_of_text, text))
            return number_of_text
        number, text = name_of(value)
        self._new_names.append((number, text))
        return number

    def _key_list(self, keys: Decoded, what: str) -> list[int]:
        if type(keys) is not list:
            raise EventError(f"{what} is a list of keys, not {shown(keys)}")
        return [self._key(key) for key in keys]

    def _rebalanced(self, log: Decoded) -> list[int]:
        """Return the keys of all entries. An entry is a key, a list of keys, or a map with `keys` or `partitions`."""
        if type(log) is not list:
            raise EventError(f"`rebalance-log` is a list, not {shown(log)}")
        keys: list[int] = []
        for entry in log:
            named = entry.get("keys", entry.get("partitions")) if isinstance(entry, dict) else entry
            if type(named) is list:
                keys += self._key_list(named, "an entry of `rebalance-log`")
            elif named is not None:
                if isinstance(entry, dict):
                    raise EventError(f"the keys in `rebalance-log` are a list, not {shown(named)}")
                keys.append(self._key(named))
        return keys


def _is_numbered(event: dict[Any, Any]) -> bool:
    """Return whether the event's process is a number. Raises `EventError` if it is neither a number nor a name."""
    process = event.get("process")
    if type(process) is int:
        return True
    if type(process) is not str:
        raise EventError(f"`process` is an integer or a name, not {shown(process)}")
    return False


def _integer(event: dict[Any, Any], name: str) -> int | None:
    """Return a field that is an integer of 64 bits, or null."""
    number = event.get(name)
    if number is None:
        return None
    if type(number) is not int:
        raise EventError(f"`{name}` is an integer, not {shown(number)}")
    if not -INT64_MAX <= number <= INT64_MAX:
        raise EventError(f"`{name}` is {shown(number)}, beyond 2^63")
    return number


def _offset(offset: Decoded) -> int | None:
    """Return an offset. A null or a negative number means that it is not known; then return None."""
    if offset is None:
        return None
    if type(offset) is not int:
        raise EventError(f"an offset is an integer or null, not {shown(offset)}")
    if offset > INT64_MAX:
        raise EventError(f"an offset is {shown(offset)}, beyond 2^63")
    return offset if offset >= 0 else None


def _key_of_events(value: dict[Any, Any]) -> str | None:
    """Return the key of a list of maps in a map that is no event. None: there is none."""
    lists = (
        key
        for key, items in value.items()
        if isinstance(items, list) and items and isinstance(items[0], dict)
    )
    return next((key for key in lists if isinstance(key, str) and key.replace("-", "_").isidentifier()), None)


class EventMark(NamedTuple):
    """The number of sends and polls before an event."""

    sends: int
    polls: int


class EventRows:
    """Rows of EVENTS. Append the sends and polls of an event first, then its row, which includes them."""

    def __init__(self) -> None:
        self.send_keys: list[int] = []
        self.send_values: list[int] = []
        self.send_offsets: list[int | None] = []
        self.poll_keys: list[int] = []
        self.poll_values: list[int] = []
        self.poll_offsets: list[int | None] = []
        self._rows: list[tuple[object, ...]] = []
        self._without_sends: list[bool] = []

    def row(
        self,
        line: int,
        index: int | None,
        time_ns: int | None,
        process: int | None,
        kind: str | None,
        f: str | None,
        keys: list[int] | None,
        rebalanced: list[int] | None,
        isolation: str | None,
        names: list[tuple[int, str]] | None,
        error: str | None = None,
        *,
        without_sends: bool = False,
    ) -> None:
        """Append an event, with the sends and polls that were appended since the last row.

        `without_sends`: the event does not contain the sends, so the column is null.
        """
        sends, polls = len(self.send_keys), len(self.poll_keys)
        self._without_sends.append(without_sends or error is not None)
        self._rows.append(
            (line, index, time_ns, process, kind, f, sends, polls, keys, rebalanced, isolation, names, error)
        )

    def error(self, line: int, error: str) -> None:
        """Append a line that cannot be read."""
        self.row(line, None, None, None, None, None, None, None, None, None, error)

    def mark(self) -> EventMark:
        """Return a mark for `back_to`."""
        return EventMark(len(self.send_keys), len(self.poll_keys))

    def back_to(self, mark: EventMark) -> None:
        """Remove the sends and polls that were appended since the mark."""
        del self.send_keys[mark.sends :], self.send_values[mark.sends :], self.send_offsets[mark.sends :]
        del self.poll_keys[mark.polls :], self.poll_values[mark.polls :], self.poll_offsets[mark.polls :]

    def batch(self) -> pa.RecordBatch:
        """Return all rows as a batch of EVENTS."""
        if not self._rows:
            return pa.RecordBatch.from_pylist([], schema=EVENTS)
        columns = dict(zip(EVENTS.names, zip(*self._rows, strict=True), strict=True))
        null = {"sends": self._without_sends, "polls": [error is not None for error in columns["error"]]}
        arrays = [
            pa.array(columns[field.name], field.type)
            if field.name not in {"sends", "polls"}
            else self._records(field.name, columns[field.name], null[field.name])
            for field in EVENTS
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=EVENTS)

    def _records(self, name: str, ends: tuple[object, ...], null: Sequence[bool]) -> pa.Array:
        """Return the column `sends` or `polls`. For each row, `ends` has the index after its last record."""
        parts = (
            (self.send_keys, self.send_values, self.send_offsets)
            if name == "sends"
            else (self.poll_keys, self.poll_values, self.poll_offsets)
        )
        records = pa.StructArray.from_arrays(
            [pa.array(part, pa.int64()) for part in parts], fields=list(RECORD)
        )
        return pa.ListArray.from_arrays(
            pa.array([0, *ends], pa.int32()), records, mask=pa.array(null, pa.bool_())
        )
