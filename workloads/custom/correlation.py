"""By what an output is joined to its input: a field, a header, its key, all that it holds, or a user's function."""

import hashlib
import json
import zlib
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from harness.model.expectation import InputRecord
from workloads.custom.description import CONTENT, ExpectedOutputs, UserFunction
from workloads.custom.functions import UserError, call

NUMBER = "\0number"
"""The key of an object that stands for a number that is no integer, as it is compared."""
MOST_DIGITS = 400


class Correlation:
    """How the outputs of one pipeline are joined to their inputs, and what of them is judged."""

    def __init__(
        self, expect: ExpectedOutputs, name_in_file: Callable[[str], str] = lambda topic: topic
    ) -> None:
        """`in_file`: the name that the user's file has for a topic of the run."""
        self._ignored = [_parts(pointer) for pointer in expect.ignore]
        self._by_content = expect.correlate == CONTENT
        self._find = _finder(expect.correlate, name_in_file)

    def of_input(self, record: InputRecord) -> str | None:
        """What outputs are about that come of this input; None: what they hold says it. Raises `UserError`."""
        if self._by_content:
            return None
        found = self._find(record)
        if found is None:
            where = f"{record.topic}/{record.partition} offset {record.offset}"
            raise UserError(
                f"nothing joins the input at {where} to its outputs: `correlate` finds nothing in it"
            )
        return found

    def of_output(self, record: InputRecord) -> str | None:
        """What an output is about; None: nothing can be found in it."""
        if self._by_content:
            return self.content(record.key, record.value)
        try:
            return self._find(record)
        except UserError:  # whatever a program has written, it is judged: as what no input accounts for
            return None

    def digest(self, key: bytes | None, value: bytes | None) -> int:
        """Of what is judged of it."""
        return zlib.crc32(self._judged(key, value))

    def content(self, key: bytes | None, value: bytes | None) -> str:
        """A name of all that is judged of it."""
        return hashlib.blake2b(self._judged(key, value), digest_size=16).hexdigest()

    def _judged(self, key: bytes | None, value: bytes | None) -> bytes:
        if value is not None:
            value = _canonical(value, self._ignored)
        lengths = [-1 if part is None else len(part) for part in (key, value)]
        return b"%d %d " % tuple(lengths) + (key or b"") + (value or b"")


def _finder(
    correlate: str | UserFunction, name_in_file: Callable[[str], str]
) -> Callable[[InputRecord], str | None]:
    if isinstance(correlate, UserFunction):

        def by_function(record: InputRecord) -> str | None:
            given = call(
                correlate, name_in_file(record.topic), record.key, record.value, dict(record.headers)
            )
            return None if given is None else str(given)

        return by_function
    kind, _, rest = correlate.partition(":")
    if kind == "json":
        parts = _parts(rest)
        return lambda record: _text(_at(record.value, parts))
    if kind == "header":
        return lambda record: _decoded(dict(record.headers).get(rest))
    assert correlate in ("key", CONTENT), correlate
    return lambda record: _decoded(record.key)


def _parts(pointer: str) -> list[str]:
    """Of a JSON pointer (RFC 6901)."""
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


def _at(value: bytes | None, parts: Sequence[str]) -> object:
    """What stands there; None: nothing, or the value is no JSON."""
    try:
        return _within(_loads(value or b""), parts)
    except (ValueError, ArithmeticError, RecursionError):
        return None


def _loads(value: bytes) -> Any:
    """JSON with each number as what it means: 1, 1.0 and 1e0 are one, and no digit of a large one is lost."""
    return json.loads(value, parse_float=_number)


def _number(text: str) -> Any:
    sign, digits, exponent = Decimal(text).as_tuple()
    assert isinstance(exponent, int), "JSON has no infinity"
    held = "".join(map(str, digits)).lstrip("0")
    kept = held.rstrip("0")
    exponent += len(held) - len(kept)
    if not kept:
        return 0
    if 0 <= exponent <= MOST_DIGITS:
        return int(f"{'-' if sign else ''}{kept}{'0' * exponent}")
    return {NUMBER: f"{'-' if sign else ''}{kept}e{exponent}"}


def _dumps(body: object) -> bytes:
    return json.dumps(body, sort_keys=True, separators=(",", ":")).encode()


def _within(found: Any, parts: Sequence[str]) -> Any:
    """What stands there in what was read of JSON; None: nothing."""
    for part in parts:
        if isinstance(found, dict):
            found = found.get(part)
        elif isinstance(found, list) and part.isdecimal() and int(part) < len(found):
            found = found[int(part)]
        else:
            return None
    return found


def _canonical(value: bytes, ignored: Sequence[Sequence[str]]) -> bytes:
    """A JSON object or list by what it means, without what is not judged; anything else stays as it is.

    Every language writes JSON with spaces of its own, and its keys in an order of its own.
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
            inner[int(last)] = None  # the others keep their places
    return _dumps(body)


def _text(found: object) -> str | None:
    if found is None or isinstance(found, str):
        return found
    if isinstance(found, dict) and found.keys() == {NUMBER}:
        return str(found[NUMBER])
    return _dumps(found).decode()


def _decoded(content: bytes | None) -> str | None:
    return None if content is None else content.decode(errors="backslashreplace")
