"""Numbers that stand for keys and values: a small integer for itself, for all else a hash of its text."""

import json
import math
from hashlib import blake2b

import orjson

from harness.history_files.schema import NAMES_FROM, OWN_NAME_LIMIT

EXACT_FLOAT_LIMIT = 1 << 53
SHOWN_CHARACTERS = 60
Decoded = object
"""What a line decodes to: None, bool, int, float, str, list, dict; as a dict's key also tuple or MapKey."""


class UnnameableValue(ValueError):
    """A value that no text stands for exactly; the message says why."""


def name_of(value: Decoded) -> tuple[int, str]:
    """The number from 2^62 upwards and the canonical text that it is a hash of; raises `UnnameableValue`."""
    text = canonical(value)
    digest = int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")
    return NAMES_FROM | digest >> 2, text


def stands_for_itself(number: int) -> bool:
    """Whether an integer is its own name."""
    return -OWN_NAME_LIMIT <= number <= OWN_NAME_LIMIT


def canonical(value: Decoded) -> str:
    """The value as JSON on one line, keys sorted: equal values have equal texts. Raises `UnnameableValue`."""
    try:
        if isinstance(value, str):
            return orjson.dumps(value).decode()
        return json.dumps(_plain(value), sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    except RecursionError:
        raise UnnameableValue("is nested too deeply") from None
    except (orjson.JSONEncodeError, UnicodeEncodeError):
        raise UnnameableValue("is text that is no Unicode") from None


def _plain(value: Decoded) -> Decoded:
    """The value with nothing in it that JSON would change: a map with keys that are no strings, as pairs."""
    if isinstance(value, float) and not (math.isfinite(value) and abs(value) < EXACT_FLOAT_LIMIT):
        raise UnnameableValue("is no number that can be told from its neighbours")
    if isinstance(value, str):
        value.encode()
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        if all(isinstance(key, str) for key in value):
            return {key: _plain(one) for key, one in value.items()}
        return {"": sorted(([_plain(k), _plain(v)] for k, v in value.items()), key=canonical)}
    return value


def shown(value: Decoded) -> str:
    """The value for a message, in JSON and cut to a few words."""
    try:
        text = json.dumps(_bounded(value, 4), ensure_ascii=False, default=str)
    except (TypeError, ValueError):
        text = f"a {type(value).__name__}"
    if len(text) > SHOWN_CHARACTERS:
        text = text[: SHOWN_CHARACTERS - 3] + "..."
    return text.encode(errors="replace").decode()


def _bounded(value: Decoded, depth: int) -> Decoded:
    """The beginning of a value, so that showing it costs nothing."""
    if isinstance(value, str):
        return value[:SHOWN_CHARACTERS]
    if isinstance(value, int) and value.bit_length() > 8 * SHOWN_CHARACTERS:
        return "a number of very many digits"
    if isinstance(value, list | tuple):
        return [_bounded(one, depth - 1) for one in value[:SHOWN_CHARACTERS]] if depth else "..."
    if isinstance(value, dict):
        some = [(str(_bounded(key, depth)), one) for key, one in list(value.items())[:SHOWN_CHARACTERS]]
        return {key: _bounded(one, depth - 1) for key, one in some} if depth else "..."
    return value
