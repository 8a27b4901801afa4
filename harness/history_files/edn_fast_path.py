"""Convert the usual EDN lines of Jepsen to JSON, and decode that: several times faster than the full parser.

A usual line has only keywords, numbers, nil, vectors and maps. Between two of them is a space, or a comma and a space.
A few replacements of text make JSON of it. A map becomes `{"":[key,value,...]}`, so that its keys keep their type. The
full parser (`edn.read_all`) reads all other lines.

The results are the same, except for integers below -2^63 or from 2^64 on, which become floats here. Such a float can be
neither a name nor an offset, so the caller reads its line again with the full parser.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import orjson

from harness.history_files.edn import ODD_KEYS_LIMIT, OPERATION_TAG

LINES_AT_ONCE = 256  # some 100 kB: it stays in the processor's cache
USUAL = re.compile(r"\{[-\w.*/:?!<>=+ ,\[\]{}]*\}", re.ASCII)
KEYWORD = re.compile(r":([^ ,:\[\]{}]+)")
NIL = re.compile(r"(?<=[\[,])nil(?=[\],])")


def decode(lines: Sequence[str]) -> Iterator[dict[Any, Any] | None]:
    """Yield the map on each line, or None if the full parser has to read the line."""
    rest = iter(lines)
    while chunk := list(islice(rest, LINES_AT_ONCE)):
        stripped = [line.removeprefix(OPERATION_TAG[:-1]) for line in chunk]
        usual = [line if "null" not in line and USUAL.fullmatch(line) else "" for line in stripped]
        for line, json in zip(usual, _as_json("\n".join(usual)).split("\n"), strict=True):
            yield _map(json, line.count("{")) if line else None


def _as_json(text: str) -> str:
    """Convert lines of the usual form to JSON."""
    text = text.replace(", ", " ").replace(" ", ",")
    text = '"'.join(KEYWORD.split(text))
    text = text.replace("{", '{"":[').replace("}", "]}")
    return NIL.sub("null", text) if "nil" in text else text


def _map(json: str, maps: int) -> dict[Any, Any] | None:
    """Return the event. Return None if it has other maps than the results of its polls."""
    try:
        event = _paired(orjson.loads(json))
        value = event.get("value") if event else None
        if event and maps > 1 and type(value) is list:
            for step in value:
                if type(step) is list and len(step) == 2 and type(step[1]) is dict:
                    step[1] = _paired(step[1])
                    maps -= 1 if step[1] is not None else 0
    except (orjson.JSONDecodeError, TypeError):  # not of the form, or a key that is a list
        return None
    return event if maps == 1 else None


def _paired(encoded: dict[str, list[Any]]) -> dict[Any, Any] | None:
    """Return the map with these keys and values.

    Return None if there are too many keys, a key without a value, or a key twice.
    """
    items = encoded[""]
    if len(items) > 2 * ODD_KEYS_LIMIT:
        return None
    result = dict(zip(items[::2], items[1::2], strict=False))
    return result if 2 * len(result) == len(items) else None
