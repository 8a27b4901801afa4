"""EDN lines of the form that Jepsen prints, by way of JSON: several times the speed of the full parser.

A line of nothing but keywords, numbers, nil, vectors and maps, with one space or comma and space between
two of them, becomes JSON by replacing text, a map being `{"":[key,value,...]}` so that its keys keep their
type. Whatever is not of that form, or does not decode, is left to `edn.read`: the two never differ, but
for integers below -2^63 or from 2^64 on, which are floats here. (Such a float can be neither
a name nor an offset, and a line with one that should be is read again in full.)
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
    """For each line the map that it holds, or None: the full parser has to look at it."""
    rest = iter(lines)
    while some := list(islice(rest, LINES_AT_ONCE)):
        stripped = [line.removeprefix(OPERATION_TAG[:-1]) for line in some]
        usual = [line if "null" not in line and USUAL.fullmatch(line) else "" for line in stripped]
        for line, json in zip(usual, _as_json("\n".join(usual)).split("\n"), strict=True):
            yield _map(json, line.count("{")) if line else None


def _as_json(text: str) -> str:
    """Lines of the usual form as JSON."""
    text = text.replace(", ", " ").replace(" ", ",")
    text = '"'.join(KEYWORD.split(text))
    text = text.replace("{", '{"":[').replace("}", "]}")
    return NIL.sub("null", text) if "nil" in text else text


def _map(json: str, maps: int) -> dict[Any, Any] | None:
    """The event, if the only maps in it are what its polls returned."""
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


def _paired(held: dict[str, list[Any]]) -> dict[Any, Any] | None:
    """A map from its keys and values in a row; None if there are many, one without partner, or one twice."""
    row = held[""]
    if len(row) > 2 * ODD_KEYS_LIMIT:
        return None
    made = dict(zip(row[::2], row[1::2], strict=False))
    return made if 2 * len(made) == len(row) else None
