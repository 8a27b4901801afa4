"""Join an output to its input: by a field, a header, the key, the complete content, or a user's function."""

import hashlib
import json
import zlib
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from harness.model.expectation import Headers, InputRecord
from workloads.custom.description import CONTENT, IGNORED_HEADER, PARTS, ExpectedOutputs, UserFunction
from workloads.custom.functions import UserError, call_with_record

NUMBER = "\0number"
"""A number that is not an integer is replaced by an object with this key, so that numbers can be compared."""
MAX_EXPONENT = 400
"""A number with a larger exponent is kept as text."""


class Correlation:
    """How the outputs of a custom pipeline are joined to their inputs, and which of their fields are compared."""

    def __init__(
        self, expect: ExpectedOutputs, name_in_file: Callable[[str], str] = lambda topic: topic
    ) -> None:
        """`name_in_file` maps a topic of the run to its name in pipeline.toml."""
        ignored_headers = [name for name in expect.ignore if name.startswith(IGNORED_HEADER)]
        self._ignored = [_pointer_parts(name) for name in expect.ignore if name not in ignored_headers]
        self._ignored_headers = {name.removeprefix(IGNORED_HEADER) for name in ignored_headers}
        self._compare, self._name_in_file = expect.compare, name_in_file
        self._by_content = expect.correlate == CONTENT
        self._find = _finder(expect.correlate, name_in_file)

    def of_input(self, record: InputRecord) -> str | None:
        """Return the correlation key of an input. None: outputs are joined by their content. Raises `UserError`."""
        if self._by_content:
            return None
        correlation_key = self._find(record)
        if correlation_key is None:
            position = f"{record.topic}/{record.partition} offset {record.offset}"
            raise UserError(
                f"the input at {position} cannot be joined to its outputs: `correlate` finds no key in it"
            )
        return correlation_key

    def of_output(self, record: InputRecord) -> str | None:
        """Return the correlation key of an output, or None if it has none."""
        if self._by_content:
            return self.content(record.key, record.value)
        try:
            return self._find(record)
        except UserError:  # the output is still checked, as one that no input leads to
            return None

    def digest(self, key: bytes | None, value: bytes | None, more: str = "") -> int:
        """Return a digest of the compared content. `more` is the result of `other_parts`."""
        return zlib.crc32(self._compared_bytes(key, value) + more.encode(errors="surrogatepass"))

    def other_parts(
        self, topic: str, headers: Headers | None, timestamp_ms: int | None, partition: int | None
    ) -> str:
        """Return the parts that are compared in addition to key and value, as text. Empty if there are none.

        The order of headers with different names does not count.
        """
        names = self._compare.get(self._name_in_file(topic), ())
        if not names:
            return ""
        compared = sorted(
            ((name, content) for name, content in headers or () if name not in self._ignored_headers),
            key=lambda header: header[0],
        )
        parts = {
            "headers": f"headers {compared!r}",
            "timestamp_ms": f"timestamp_ms {timestamp_ms}",
            "partition": f"partition {partition}",
        }
        return f" ({'; '.join(parts[name] for name in PARTS if name in names)})"

    def content(self, key: bytes | None, value: bytes | None) -> str:
        """Return a hash of the compared content, as text."""
        return hashlib.blake2b(self._compared_bytes(key, value), digest_size=16).hexdigest()

    def _compared_bytes(self, key: bytes | None, value: bytes | None) -> bytes:
        if value is not None:
            value = _canonical(value, self._ignored)
        lengths = [-1 if part is None else len(part) for part in (key, value)]
        return b"%d %d " % tuple(lengths) + (key or b"") + (value or b"")


def _finder(
    correlate: str | UserFunction, name_in_file: Callable[[str], str]
) -> Callable[[InputRecord], str | None]:
    if isinstance(correlate, UserFunction):

        def by_function(record: InputRecord) -> str | None:
            topic, headers = name_in_file(record.topic), dict(record.headers)
            result = call_with_record(correlate, record, topic, record.key, record.value, headers)
            return None if result is None else str(result)

        return by_function
    kind, _, rest = correlate.partition(":")
    if kind == "json":
        parts = _pointer_parts(rest)
        return lambda record: _text(_value_at(record.value, parts))
    if kind == "header":
        return lambda record: _decoded(dict(record.headers).get(rest))
    assert correlate in ("key", CONTENT), correlate
    return lambda record: _decoded(record.key)


def _pointer_parts(pointer: str) -> list[str]:
    """Split a JSON pointer (RFC 6901)."""
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


def _value_at(value: bytes | None, parts: Sequence[str]) -> object:
    """Return the value at this pointer. None: there is no such value, or `value` is not JSON."""
    try:
        return _within(_loads(value or b""), parts)
    except (ValueError, ArithmeticError, RecursionError):
        return None


def _loads(value: bytes) -> Any:
    """Parse JSON so that equal numbers are equal: 1, 1.0 and 1e0 are the same, and large numbers keep all digits."""
    return json.loads(value, parse_float=_number)


def _number(text: str) -> Any:
    sign, digits, exponent = Decimal(text).as_tuple()
    assert isinstance(exponent, int), "JSON has no infinity"
    significant = "".join(map(str, digits)).lstrip("0")
    without_zeros = significant.rstrip("0")
    exponent += len(significant) - len(without_zeros)
    if not without_zeros:
        return 0
    if 0 <= exponent <= MAX_EXPONENT:
        return int(f"{'-' if sign else ''}{without_zeros}{'0' * exponent}")
    return {NUMBER: f"{'-' if sign else ''}{without_zeros}e{exponent}"}


def _dumps(body: object) -> bytes:
    return json.dumps(body, sort_keys=True, separators=(",", ":")).encode()


def _within(value: Any, parts: Sequence[str]) -> Any:
    """Return the part of parsed JSON at this pointer, or None."""
    for part in parts:
        if isinstance(value, dict):
            value = value.get(part)
        elif isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return None
    return value


def _canonical(value: bytes, ignored: Sequence[Sequence[str]]) -> bytes:
    """Return a JSON object or array in one canonical form, without ignored fields.

    This is needed because each language writes JSON with other spaces and another key order. Other values are returned
    unchanged.
    """
    if value.lstrip()[:1] not in (b"{", b"["):
        return value
    try:
        body = _loads(value)
    except (ValueError, ArithmeticError, RecursionError):
        return value
    for parts in ignored:
        inner, last = _within(body, parts[:-1]), parts[-1]
        if isinstance(inner, dict):
            inner.pop(last, None)
        elif isinstance(inner, list) and last.isdecimal() and int(last) < len(inner):
            inner[int(last)] = None  # the other elements keep their positions
    return _dumps(body)


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, dict) and value.keys() == {NUMBER}:
        return str(value[NUMBER])
    return _dumps(value).decode()


def _decoded(content: bytes | None) -> str | None:
    return None if content is None else content.decode(errors="backslashreplace")
