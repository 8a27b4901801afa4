"""Read EDN, the data notation of Clojure, as Python values.

- Keywords, symbols and characters become strings: `:a/b` becomes "a/b".
- Vectors, lists and sets become lists. A set of numbers or of strings is sorted. In the key of a map, a list becomes a
  tuple.
- A tagged value loses its tag.
- A namespaced map gets its keys in full: `#:a{:b 1}` becomes `{:a/b 1}`.
- Integers keep every digit. A ratio becomes its text. A decimal (`M`) becomes its text if no float is equal to it.

Every error is an `EdnError`. The time is linear in the length of the text, even if the text was written to be slow. For
this, no value is visited again at each level around it. And a map can have only a limited number of keys whose hashes
an author can choose to collide.

`read_all` reads any text. `decode_usual` reads the usual lines of Jepsen several times faster, with the same result.

Reference: https://github.com/edn-format/edn, and what Clojure's printer adds (`0x`, `##NaN`, `\\o`, `#:a{}`).
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from itertools import islice
from typing import Any

import orjson

from checkers.histories.names import shown

_STOP = r'\s,\[\](){}";\\'
TOKEN = re.compile(
    rf"""[^{_STOP}\#][^{_STOP}]*+ | [\[\](){{}}] | "[^"\\]*+(?:\\.[^"\\]*+)*+" | \#[_{{] | \#[^{_STOP}]*+
    | \\.[^{_STOP}]*+ | ;[^\n]*+ | [^\s,]""",
    re.VERBOSE | re.DOTALL,
)
CLOSES = {"[": "]", "(": ")", "{": "}", "#{": "}"}
SYMBOL = re.compile(r"(?!#)[\w.*+!\-?$%&=<>/:|'#]+")
TAG = re.compile(r"#[^\W\d_].*", re.DOTALL)
NAMESPACE = re.compile(r"#:(?![:\d])[\w.*+!\-?$%&=<>|'#]+")
STARTS_NUMBER = re.compile(r"[+-]?\d")
LITERALS = {"nil", "true", "false"}
"""Tokens that look like symbols, but are constants."""


class EdnError(ValueError):
    """The text is not EDN. The message is the end of a sentence, such as "a # without a value after it"."""


def tokens_of(text: str) -> Iterable[str]:
    """Split the text into tokens. Raises `EdnError` if a namespace has no map."""
    tokens: list[str] = TOKEN.findall(text)
    return with_full_keys(tokens) if "#:" in text else tokens


@dataclass
class _Level:
    """An open bracket: the namespace of its keys or None, and the number of its values and discards so far."""

    namespace: str | None = None
    values: int = 0
    discards: int = 0

    def add_value(self) -> None:
        if self.discards:
            self.discards -= 1
        else:
            self.values += 1


def with_full_keys(tokens: Iterable[str]) -> Iterator[str]:
    """Yield the tokens with each namespaced map written in full: `#:a{:b 1}` as `{:a/b 1}`.

    Only keys that are keywords or symbols get the namespace. A key with a namespace keeps it, and `:_/b` becomes `:b`.
    Comments are left out.

    Raises:
        EdnError: No map follows the namespace, or the namespace is an alias (`#::a`).
    """
    levels = [_Level()]
    prefix = ""
    for token in tokens:
        if token[0] == ";":
            continue
        if prefix and token != "{":
            break
        level = levels[-1]
        if token.startswith("#:"):
            prefix = _namespace(token)
            continue
        if token in CLOSES:
            levels.append(_Level(prefix[2:] or None))
            prefix = ""
        elif token in {"]", ")", "}"}:
            if len(levels) > 1:
                levels.pop()
            levels[-1].add_value()
        elif token == "#_":
            level.discards += 1
        elif not TAG.fullmatch(token):
            is_key = level.values % 2 == 0
            level.add_value()
            yield _with_namespace(token, level.namespace) if level.namespace and is_key else token
            continue
        yield token
    if prefix:
        raise EdnError(f"{shown(prefix)[1:-1]} without a map after it")


def _namespace(token: str) -> str:
    if token.startswith("#::"):
        raise EdnError(
            f"{shown(token)[1:-1]} has a meaning only in the program that wrote it: write the keys of the map in "
            "full, as :a/b"
        )
    if not NAMESPACE.fullmatch(token):
        raise EdnError(f"{shown(token)} means nothing in EDN")
    return token


def _with_namespace(token: str, namespace: str) -> str:
    """Return a keyword or a symbol with the namespace, and any other token unchanged."""
    is_name = SYMBOL.fullmatch(token) and token not in LITERALS and not STARTS_NUMBER.match(token)
    if not is_name:
        return token
    colon = ":" * token.startswith(":")
    name = token.removeprefix(":")
    if name.startswith("_/"):
        return colon + name[2:]
    return token if "/" in name or not name else f"{colon}{namespace}/{name}"


DEPTH_LIMIT = 1024
ODD_KEYS_LIMIT = 1000  # odd keys are not strings or integers below 2^60; an author can choose their hashes
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
    """A map that is the key of another map, or is inside a key. Its values can be hashed."""

    def __init__(self, items: dict[Any, Any]) -> None:
        super().__init__(items)
        self._hash = hash(frozenset(items.items()))

    def __hash__(self) -> int:  # type: ignore[override]
        return self._hash


class _Mark:
    """The placeholder of a tag or a discard, until the list around it is closed."""


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
    """Return the only value in the text. Raises `EdnError`."""
    values = read_all(text)
    if len(values) != 1:
        raise EdnError("more than one value" if values else "no value")
    return values[0]


def read_all(text: str) -> list[Any]:
    """Return the values in the text. Raises `EdnError`."""
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
            collection = _collection(opened, _without_marks(items) if marked else items)
            items, opened = outer.pop()
            items.append(collection)
        elif first in "123456789" and token.isdigit() and token.isascii():
            items.append(_integer(token))
        elif first != ";":
            items.append(_atom(token))
    if opened:
        raise EdnError(
            f"the {opened} is never closed: the line is cut off, or the value continues on the next line"
        )
    return _without_marks(items) if marked else items


def _collection(opened: str, items: list[Any]) -> Any:
    """Return the collection with these items. `opened` is its opening bracket."""
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
        result = dict(zip(items[::2], items[1::2], strict=True))
    except TypeError:  # a key that is a list or a map
        result = dict(zip(map(_hashable, items[::2]), items[1::2], strict=True))
    if 2 * len(result) != len(items):
        seen: set[Any] = set()
        twice = next(key for key in map(_hashable, items[::2]) if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise EdnError(f"a map that has the key {shown(twice)} twice")
    return result


def _is_odd(key: Any) -> bool:
    return type(key) is not str and not (type(key) is int and -(1 << 60) < key < 1 << 60)


def _hashable(value: Any) -> Any:
    """Return the value as the key of a dict."""
    if isinstance(value, list):
        return tuple(map(_hashable, value))
    if isinstance(value, dict) and not isinstance(value, MapKey):
        return MapKey({key: _hashable(item) for key, item in value.items()})
    return value


def _without_marks(items: list[Any]) -> list[Any]:
    """Return the items without tags and without discarded values. A tag or a discard needs a value after it."""
    values: list[Any] = []
    for item in reversed(items):
        if item is _TAG or item is _DISCARD:
            if not values:
                raise EdnError("a # without a value after it")
            if item is _DISCARD:
                values.pop()
        else:
            values.append(item)
    values.reverse()
    return values


def _atom(token: str) -> Any:
    """Return the value of a token that is not a bracket, plain number, keyword or comment."""
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
    raise EdnError(f"{shown(token)} is not a number")


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
    raise EdnError(f"{shown(name)} is not a character")


def _unicode(text: str) -> str:
    """Return the text with each pair of surrogates as one character."""
    if not SURROGATE.search(text):
        return text
    try:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError:
        raise EdnError("half of a surrogate pair, which is not a character") from None


LINES_AT_ONCE = 256  # some 100 kB: it stays in the processor's cache
USUAL = re.compile(r"\{[-\w.*/:?!<>=+ ,\[\]{}]*\}", re.ASCII)
KEYWORD = re.compile(r":([^ ,:\[\]{}]+)")
NIL = re.compile(r"(?<=[\[,])nil(?=[\],])")


def decode_usual(lines: Sequence[str]) -> Iterator[dict[Any, Any] | None]:
    """Yield the map on each usual line of Jepsen, or None if `read_all` has to read the line.

    A usual line has only keywords, numbers, nil, vectors and maps. Between two of them is a space, or a comma and a
    space. A few replacements of text make JSON of it. A map becomes `{"":[key,value,...]}`, so that its keys keep their
    type. Decoding that is several times faster than `read_all`.

    The results are the same, except for integers below -2^63 or from 2^64 on, which become floats here. Such a float
    can be neither a name nor an offset, so the caller reads its line again with `read_all`.
    """
    rest = iter(lines)
    while chunk := list(islice(rest, LINES_AT_ONCE)):
        stripped = [line.removeprefix(OPERATION_TAG[:-1]) for line in chunk]
        usual = [line if "null" not in line and USUAL.fullmatch(line) else "" for line in stripped]
        for line, json in zip(usual, _as_json("\n".join(usual)).split("\n"), strict=True):
            yield _usual_map(json, line.count("{")) if line else None


def _as_json(text: str) -> str:
    """Convert lines of the usual form to JSON."""
    text = text.replace(", ", " ").replace(" ", ",")
    text = '"'.join(KEYWORD.split(text))
    text = text.replace("{", '{"":[').replace("}", "]}")
    return NIL.sub("null", text) if "nil" in text else text


def _usual_map(json: str, maps: int) -> dict[Any, Any] | None:
    """Return the event. Return None if it has other maps than the results of its polls."""
    try:
        event = _usual_pairs(orjson.loads(json))
        value = event.get("value") if event else None
        if event and maps > 1 and type(value) is list:
            for step in value:
                if type(step) is list and len(step) == 2 and type(step[1]) is dict:
                    step[1] = _usual_pairs(step[1])
                    maps -= 1 if step[1] is not None else 0
    except (orjson.JSONDecodeError, TypeError):  # not of the form, or a key that is a list
        return None
    return event if maps == 1 else None


def _usual_pairs(encoded: dict[str, list[Any]]) -> dict[Any, Any] | None:
    """Return the map with these keys and values.

    Return None if there are too many keys, a key without a value, or a key twice.
    """
    items = encoded[""]
    if len(items) > 2 * ODD_KEYS_LIMIT:
        return None
    result = dict(zip(items[::2], items[1::2], strict=False))
    return result if 2 * len(result) == len(items) else None
