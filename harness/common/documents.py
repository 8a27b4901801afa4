"""Read TOML and JSON files that a user, another program or a damaged disk may have changed.

All errors of a document are `ValueError`, also those that the parsers of Python do not report so: a document that is
nested too deeply (`RecursionError`) or is too large for the memory (`MemoryError`).
"""

import json
import tomllib
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

MOST_BYTES = 256 << 20
"""The largest document that is read. The largest `verdict.json` has some megabytes."""
MOST_DEPTH = 100
"""The largest number of tables and lists inside each other. The documents of Fencepost have fewer than ten."""
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
