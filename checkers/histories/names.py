"""Number keys and values: a small integer is its own number, and another value gets a hash of its text."""

import json
import math
from hashlib import blake2b

import orjson

from harness.record.history_form import NAMES_FROM, OWN_NAME_LIMIT

EXACT_FLOAT_LIMIT = 1 << 53
SHOWN_CHARACTERS = 60
Decoded = object
"""A decoded value: None, bool, int, float, str, list, dict; as the key of a dict also tuple or MapKey."""


class UnnameableValue(ValueError):
    """A value has no exact text. The message says why."""


def name_of(value: Decoded) -> tuple[int, str]:
    """Return the canonical text of a value, and before it a hash of this text. Raises `UnnameableValue`.

    The hash is a number from 2^62 upwards.
    """
    text = canonical(value)
    digest = int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")
    return NAMES_FROM | digest >> 2, text


def is_own_name(number: int) -> bool:
    """Return whether an integer is small enough to be its own number."""
    return -OWN_NAME_LIMIT <= number <= OWN_NAME_LIMIT


def canonical(value: Decoded) -> str:
    """Return the value as JSON on one line, keys sorted. Equal values have equal texts. Raises `UnnameableValue`."""
    try:
        if isinstance(value, str):
            return orjson.dumps(value).decode()
        return json.dumps(_plain(value), sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    except RecursionError:
        raise UnnameableValue("is nested too deeply") from None
    except (orjson.JSONEncodeError, UnicodeEncodeError):
        raise UnnameableValue("is text that is not Unicode") from None


def _plain(value: Decoded) -> Decoded:
    """Return the value in a form that JSON does not change. If a map has a key that is not a string, return pairs."""
    if isinstance(value, float) and not (math.isfinite(value) and abs(value) < EXACT_FLOAT_LIMIT):
        raise UnnameableValue("is a number that is not exact")
    if isinstance(value, str):
        value.encode()
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        if all(isinstance(key, str) for key in value):
            return {key: _plain(item) for key, item in value.items()}
        return {"": sorted(([_plain(k), _plain(v)] for k, v in value.items()), key=canonical)}
    return value


def shown(value: Decoded) -> str:
    """Return the value for a message: as JSON, cut after SHOWN_CHARACTERS."""
    try:
        text = json.dumps(_bounded(value, 4), ensure_ascii=False, default=str)
    except (TypeError, ValueError):
        text = f"a {type(value).__name__}"
    if len(text) > SHOWN_CHARACTERS:
        text = text[: SHOWN_CHARACTERS - 3] + "..."
    return text.encode(errors="replace").decode()


def _bounded(value: Decoded, depth: int) -> Decoded:
    """Return the beginning of a value, so that a large value is shown quickly."""
    if isinstance(value, str):
        return value[:SHOWN_CHARACTERS]
    if isinstance(value, int) and value.bit_length() > 8 * SHOWN_CHARACTERS:
        return "a number with very many digits"
    if isinstance(value, list | tuple):
        return [_bounded(item, depth - 1) for item in value[:SHOWN_CHARACTERS]] if depth else "..."
    if isinstance(value, dict):
        items = [(str(_bounded(key, depth)), item) for key, item in list(value.items())[:SHOWN_CHARACTERS]]
        return {key: _bounded(item, depth - 1) for key, item in items} if depth else "..."
    return value
