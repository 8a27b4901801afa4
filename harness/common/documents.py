"""Read and write TOML and JSON documents. A user, another program or a damaged disk may have changed them.

Each document is described once, by a `msgspec.Struct`: `decode` checks that a body has its form, `encode` returns the
body.

All errors of a document are `ValueError`, also those that the parsers of Python do not report so: a document that is
nested too deeply (`RecursionError`) or is too large for the memory (`MemoryError`).
"""

import json
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import msgspec

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    D = TypeVar("D", bound=DataclassInstance)
else:
    D = TypeVar("D")

MOST_BYTES = 256 << 20
"""The largest document that is read. The largest `verdict.json` has some megabytes."""
MOST_DEPTH = 100
"""The largest number of tables and lists inside each other. The documents of Fencepost have fewer than ten."""
T = TypeVar("T")
TOO_DEEP = f"it is nested more than {MOST_DEPTH} levels deep"


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file. Raises OSError, ValueError."""
    return parse_toml(_text(path))


def read_json(path: Path) -> Any:
    """Read a JSON file. Raises OSError, ValueError."""
    return parse_json(_text(path))


def parse_toml(text: str) -> dict[str, Any]:
    """Parse TOML. Raises ValueError."""
    document: dict[str, Any] = _parsed(tomllib.loads, text)
    return document


def parse_json(text: str) -> Any:
    """Parse JSON. Raises ValueError, also if an object has a key twice, or for a number that JSON does not have."""
    return _parsed(_json, text)


def decode(body: object, kind: type[T]) -> T:
    """Return the value of type `kind` that a body describes. Raises ValueError, which says which key is wrong and why.

    A class that msgspec does not know has the methods `from_json` and `as_json`.
    """
    try:
        return msgspec.convert(body, kind, dec_hook=lambda cls, value: cls.from_json(value))
    except msgspec.ValidationError as error:
        raise ValueError(_in_words(str(error))) from error


def read_document(path: Path, kind: type[T], *, new: Collection[str] = ()) -> T:
    """Read a JSON file that holds an encoded value of type `kind`. Raises OSError, ValueError.

    Each key that is always written must be present, except those in `new`, which files of earlier versions lack.
    """
    body = read_json(path)
    value = decode(body, kind)
    if missing := next(_missing(body, encode(value), new), ""):
        raise ValueError(f"{missing} is missing, and it is always written")
    return value


def decode_table(table: object, kind: type[D], *, new: Collection[str] = ()) -> D:
    """Return the dataclass whose fields are in a table of TOML. Raises ValueError.

    TOML has no null, so keys without a value are not there. All others must be present, except those in `new`, which
    files of earlier versions lack. A key that is not known may be one of a later version, and is refused.
    """
    value = decode(table, kind)
    written = without_none(asdict(value))  # `encode` leaves out defaults that `decode` did not set
    if missing := next(_missing(table, written, new), ""):
        raise ValueError(f"{missing} is missing, and it is always written")
    if more := next(_missing(written, without_none(table), ()), ""):
        raise ValueError(f"there is no key {more}")
    return value


def without_none(value: Any) -> Any:
    """Return the value without None in it, and with lists instead of tuples."""
    if isinstance(value, Mapping):
        return {key: without_none(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list | tuple):
        return [without_none(inner) for inner in value if inner is not None]
    return value


def _missing(body: object, written: object, new: Collection[str]) -> Iterator[str]:
    """Yield each key of `written` that `body` does not have, as `faults[0].acted`."""
    if isinstance(body, dict) and isinstance(written, dict):
        for key, value in written.items():
            if key not in body:
                if key not in new:
                    yield key
            else:
                inner = _missing(body[key], value, new)
                yield from (f"{key}{'' if path.startswith('[') else '.'}{path}" for path in inner)
    elif isinstance(body, list) and isinstance(written, list | tuple):
        for n, (mine, value) in enumerate(zip(body, written, strict=True)):
            yield from (f"[{n}].{path}" for path in _missing(mine, value, new))


def encode(value: object) -> Any:
    """Return the body of a value: dicts, lists, texts, numbers, booleans and None. The inverse of `decode`."""
    return msgspec.to_builtins(value, enc_hook=lambda part: part.as_json())


def _in_words(message: str) -> str:
    """Say an error of msgspec with the path of the key as the documentation writes it: `faults[0].acted`."""
    match = re.fullmatch(r"(.*?)(?: - at (?:`key` in )?`\$\.?(.*)`)?", message, re.S)
    assert match is not None, "every text matches"
    message, key = match[1], f"{match[2]}: " if match[2] else ""
    if match := re.fullmatch(r"Object missing required field `(.*)`", message):
        return f"{key}{match[1]} is missing"
    if match := re.fullmatch(r"Object contains unknown field `(.*)`", message):
        return f"{key}there is no key {match[1]}"
    if match := re.fullmatch(r"Expected `(.*)`, got `(.*)`", message):
        expected = " or ".join(_TYPES.get(name, name) for name in match[1].split(" | "))
        return f"{key}expected {expected}, not {_TYPES.get(match[2], match[2])}"
    if match := re.fullmatch(r"Invalid (?:enum )?value (.*)", message):
        return f"{key}there is no {match[1]}"
    if match := re.fullmatch(r"Expected `(int|float)` (>=|<=) (.*)", message):
        bound = f"at {'least' if match[2] == '>=' else 'most'} {float(match[3]):g}"
        return f"{key}expected {_TYPES[match[1]]} of {bound}"
    return f"{key}{message[:1].lower()}{message[1:]}"


_TYPES = {
    "object": "an object",
    "array": "a list",
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "null": "null",
}


def json_text(body: object, indent: int | None = None) -> str:
    """Return a body as JSON that every file in UTF-8 can hold.

    A name that is not UTF-8, such as that of a file, has surrogates: they become escapes (`\\udce9`).
    """
    text = json.dumps(body, ensure_ascii=False, indent=indent)
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _text(path: Path) -> str:
    """Return the text of a file, without a byte order mark."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        text = file.read(MOST_BYTES + 1)
    if len(text) > MOST_BYTES:
        raise ValueError(f"it is larger than {MOST_BYTES >> 20} MiB")
    return text


def _parsed(parse: Callable[[str], Any], text: str) -> Any:
    try:
        document = parse(text)
    except RecursionError as error:
        raise ValueError(TOO_DEEP) from error
    except MemoryError as error:
        raise ValueError("it needs more memory than there is") from error
    _require_shallow(document)
    return document


def _require_shallow(document: object) -> None:
    """Raise ValueError if the document is nested too deeply. A parser may accept it, and its reader then fails."""
    level = [document]
    for _ in range(MOST_DEPTH):
        collections = [value for value in level if isinstance(value, dict | list)]
        level = [
            inner
            for value in collections
            for inner in (value.values() if isinstance(value, dict) else value)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return
    raise ValueError(TOO_DEEP)


def _json(text: str) -> Any:
    return json.loads(text, object_pairs_hook=each_key_once, parse_constant=no_constant)


def each_key_once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON. Raises ValueError if it has a key twice. For `object_pairs_hook`."""
    document = dict(pairs)
    if len(document) < len(pairs):
        twice, _ = Counter(key for key, _ in pairs).most_common(1)[0]
        raise ValueError(f"an object has the key {json.dumps(twice[:80])} twice")
    return document


def no_constant(name: str) -> NoReturn:
    """Raise ValueError for NaN and Infinity, which JSON does not have. For `parse_constant`."""
    raise ValueError(f"{name} is not a number of JSON")
