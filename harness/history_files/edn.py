"""EDN, the notation of Clojure, as Python values.

Keywords, symbols and characters become strings (`:a/b` is "a/b"), vectors, lists and sets become lists (a
set of numbers or strings in their order), a tagged value loses its tag. A namespaced map has its keys in full:
`#:a{:b 1}` is `{:a/b 1}`. Integers keep every digit; a ratio, and a decimal (`M`) that no float equals, keep
their text. As the key of a map a list is a tuple.

Every error is an `EdnError`. The time is linear in the text, whoever wrote it: nothing is looked at again
at each level around it, and keys that could be chosen to collide in a dict are few.

Reference: https://github.com/edn-format/edn, and what Clojure's printer adds (`0x`, `##NaN`, `\\o`, `#:a{}`).
"""

import re
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from harness.history_files.edn_tokens import CLOSES, SYMBOL, TAG, EdnError, tokens_of
from harness.history_files.names import shown

DEPTH_LIMIT = 1024
ODD_KEYS_LIMIT = 1000  # of a map: keys other than strings and integers below 2^60, whose hashes can be chosen
OPERATION_TAG = "#jepsen.history.Op{"

CHARACTERS = {
    "newline": "\n",
    "return": "\r",
    "space": " ",
    "tab": "\t",
    "backspace": "\b",
    "formfeed": "\f",
}
ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f", '"': '"', "\\": "\\"}
INTEGER = re.compile(r"[+-]?(?:0|[1-9][0-9]*)N?")
HEXADECIMAL = re.compile(r"([+-]?)0[xX]([0-9a-fA-F]+)N?")
RATIO = re.compile(r"[+-]?[0-9]+/[0-9]+")
FLOAT = re.compile(r"([+-]?(?:0|[1-9][0-9]*)(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?)(M?)")
ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|o?[0-7]{1,3}|.)", re.DOTALL)
SURROGATE = re.compile("[\ud800-\udfff]")


class MapKey(dict[Any, Any]):
    """A map that is, or stands in, a key of another map; its values are frozen too."""

    def __init__(self, held: dict[Any, Any]) -> None:
        super().__init__(held)
        self._hash = hash(frozenset(held.items()))

    def __hash__(self) -> int:  # type: ignore[override]
        return self._hash


class _Mark:
    """Stands where a tag or a discard was read, until the list that holds it is closed."""


_TAG, _DISCARD = _Mark(), _Mark()
CONSTANTS = {
    "nil": None,
    "true": True,
    "false": False,
    "##Inf": float("inf"),
    "##-Inf": float("-inf"),
    "##NaN": float("nan"),
    "#_": _DISCARD,
}


def read(text: str) -> Any:
    """The one value that the text holds; raises `EdnError`."""
    values = read_all(text)
    if len(values) != 1:
        raise EdnError("more than one value" if values else "no value")
    return values[0]


def read_all(text: str) -> list[Any]:
    """The values that the text holds; raises `EdnError`."""
    if text.startswith(OPERATION_TAG):
        text = text[len(OPERATION_TAG) - 1 :]
    marked = "#" in text
    outer: list[tuple[list[Any], str]] = []
    items: list[Any] = []
    opened = ""
    for token in tokens_of(text):
        first = token[0]
        if first == ":":
            items.append(token[1:] if len(token) > 1 else _atom(token))
        elif token in CLOSES:
            if len(outer) == DEPTH_LIMIT:
                raise EdnError(f"more than {DEPTH_LIMIT} levels of nesting")
            outer.append((items, opened))
            items, opened = [], token
        elif first in "])}":
            if not opened or CLOSES[opened] != token:
                raise EdnError(
                    f"a {token} where {f'the {opened} needs its end' if opened else 'none is open'}"
                )
            made = _collection(opened, _resolved(items) if marked else items)
            items, opened = outer.pop()
            items.append(made)
        elif first in "123456789" and token.isdigit() and token.isascii():
            items.append(_integer(token))
        elif first != ";":
            items.append(_atom(token))
    if opened:
        raise EdnError(f"the {opened} is never closed: the line is cut off, or the value goes on after it")
    return _resolved(items) if marked else items


def _collection(opened: str, items: list[Any]) -> Any:
    """What stands between an opening bracket and its end."""
    if opened == "{":
        return _map(items)
    if opened == "#{" and ({*map(type, items)} in ({int}, {str})):
        items.sort()
    return items


def _map(items: Sequence[Any]) -> dict[Any, Any]:
    if len(items) % 2:
        raise EdnError(f"a map in which the key {shown(items[-1])} has no value")
    if len(items) > 2 * ODD_KEYS_LIMIT and sum(map(_is_odd, items[::2])) > ODD_KEYS_LIMIT:
        raise EdnError(
            f"a map with more than {ODD_KEYS_LIMIT} keys that are not strings or integers below 2^60"
        )
    try:
        return _paired(items)
    except RecursionError:
        raise EdnError("a map's key that is nested too deeply") from None


def _paired(items: Sequence[Any]) -> dict[Any, Any]:
    try:
        made = dict(zip(items[::2], items[1::2], strict=True))
    except TypeError:  # a key that is a list or a map
        made = dict(zip(map(_frozen, items[::2]), items[1::2], strict=True))
    if 2 * len(made) != len(items):
        seen: set[Any] = set()
        twice = next(key for key in map(_frozen, items[::2]) if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise EdnError(f"a map in which the key {shown(twice)} stands twice")
    return made


def _is_odd(key: Any) -> bool:
    return type(key) is not str and not (type(key) is int and -(1 << 60) < key < 1 << 60)


def _frozen(value: Any) -> Any:
    """The value as the key of a dict."""
    if isinstance(value, list):
        return tuple(map(_frozen, value))
    if isinstance(value, dict) and not isinstance(value, MapKey):
        return MapKey({key: _frozen(held) for key, held in value.items()})
    return value


def _resolved(items: list[Any]) -> list[Any]:
    """The items without what was discarded, and without tags; each of the two needs a value after it."""
    kept: list[Any] = []
    for item in reversed(items):
        if item is _TAG or item is _DISCARD:
            if not kept:
                raise EdnError("a # with nothing after it")
            if item is _DISCARD:
                kept.pop()
        else:
            kept.append(item)
    kept.reverse()
    return kept


def _atom(token: str) -> Any:
    """Any token but a bracket, a plain number, a keyword and a comment."""
    if token in CONSTANTS:
        return CONSTANTS[token]
    first = token[0]
    value: Any
    if first == '"':
        value = _string(token)
    elif first == "\\":
        value = _character(token[1:])
    elif first.isdecimal() or (first in "+-" and token[1:2].isdecimal()):
        value = _number(token)
    elif TAG.fullmatch(token):
        value = _TAG
    elif token != ":" and SYMBOL.fullmatch(token):
        value = token
    else:
        raise EdnError(f"{shown(token)} means nothing in EDN")
    return value


def _number(token: str) -> int | float | str:
    if INTEGER.fullmatch(token):
        return _integer(token.removesuffix("N"))
    if match := FLOAT.fullmatch(token):
        number = float(match[1])
        if not match[2]:
            return number
        try:
            return number if Decimal(repr(number)) == Decimal(match[1]) else token
        except InvalidOperation:
            return token
    if match := HEXADECIMAL.fullmatch(token):
        return int(match[1] + match[2], 16)
    if RATIO.fullmatch(token):
        return token
    raise EdnError(f"{shown(token)} is no number")


def _integer(digits: str) -> int:
    try:
        return int(digits)
    except ValueError:
        raise EdnError(f"a number of {len(digits)} digits") from None


def _string(token: str) -> str:
    if len(token) == 1:
        raise EdnError("a string that is never closed")
    text = token[1:-1]
    return _unicode(ESCAPE.sub(_unescaped, text) if "\\" in text else text)


def _unescaped(match: re.Match[str]) -> str:
    escape = match[1]
    if escape[0] == "u" and len(escape) == 5:
        return chr(int(escape[1:], 16))
    digits = escape.removeprefix("o")
    if digits and not digits.strip("01234567"):
        return chr(int(digits, 8))
    if escape not in ESCAPES:
        raise EdnError(f"{shown(match[0])} means nothing in a string")
    return ESCAPES[escape]


def _character(name: str) -> str:
    if len(name) == 1:
        return name
    if name in CHARACTERS:
        return CHARACTERS[name]
    if re.fullmatch(r"u[0-9a-fA-F]{4}|o[0-7]{1,3}", name):
        return _unicode(chr(int(name[1:], 16 if name[0] == "u" else 8)))
    raise EdnError(f"{shown(name)} is no character")


def _unicode(text: str) -> str:
    """The text, its pairs of surrogates made one character each."""
    if not SURROGATE.search(text):
        return text
    try:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError:
        raise EdnError("half of a surrogate pair, which is no character") from None
