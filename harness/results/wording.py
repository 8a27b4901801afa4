"""Values as words: safe to show, short enough to read, numbers with their units.

What a run recorded may hold anything: markup, control characters, marks that turn the direction of
writing, a key of a megabyte. Markup is escaped where text becomes HTML or XML; everything else is
dealt with here, once.
"""

import json
import math
import unicodedata
from collections.abc import Iterable, Mapping

LIMIT = 160
_HIDDEN = frozenset("\u200b\u200c\u200e\u200f\u2028\u2029\u2060\u061c\ufeff\ufffe\uffff")
_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def printable(value: object, limit: int = LIMIT) -> str:
    """One value as one line of text without anything invisible, at most about `limit` characters.

    Control, format and surrogate characters are shown as escapes (`\\x1b`, `\\u202e`). Lists and
    mappings are shown as JSON. None is "unknown".
    """
    if value is None:
        return "unknown"
    if isinstance(value, str):
        text = value
    elif isinstance(value, bool):
        text = "yes" if value else "no"
    elif isinstance(value, bytes):
        text = value[: limit + 1].decode("utf-8", "backslashreplace")
    elif isinstance(value, Mapping | list | tuple):
        text = json.dumps(value, ensure_ascii=False, default=str)
    else:
        text = str(value)
    return "".join(_shown(character) for character in shorten(text, limit))


def shorten(text: str, limit: int = LIMIT) -> str:
    """The text, or its two ends and how much was left out."""
    if len(text) <= limit:
        return text
    head, tail = limit * 2 // 3, limit // 6
    return f"{text[:head]} … {number(len(text) - head - tail)} characters left out … {text[-tail:]}"


def _shown(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character not in _HIDDEN and character.isprintable():
        return character
    if unicodedata.category(character) == "Zs":
        return " "
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def integer(value: object) -> int | None:
    """The value if it is a whole number of 64 bits, else None: findings may hold anything."""
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if -(2**63) <= value < 2**63 else None


def number(value: float) -> str:
    """With separators of thousands; at most three significant digits behind a small whole part."""
    if not math.isfinite(value):
        return str(value)
    if value == int(value):
        return f"{int(value):,}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def seconds(value: float | None) -> str:
    """A time or a length in seconds."""
    return "unknown" if value is None else f"{value:,.1f} s"


def duration(seconds: float) -> str:
    """A length of time for people: `45 s`, `12 min`, `1 h 05 min`, `3 d 04 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours = minutes // 60
    return f"{hours} h {minutes % 60:02} min" if hours < 48 else f"{number(hours // 24)} d {hours % 24:02} h"


def milliseconds(value: float) -> str:
    """A length in milliseconds, in seconds from one second on."""
    return f"{value / 1000:.3g} s" if value >= 1000 else f"{value:.3g} ms"


def size(octets: int) -> str:
    """A file's size."""
    if octets < 1000:
        return f"{octets} B"
    for unit, scale in (("kB", 1e3), ("MB", 1e6), ("GB", 1e9)):
        if octets < 1000 * scale:
            return f"{octets / scale:.3g} {unit}"
    return f"{octets / 1e12:.3g} TB"


def plural(count: int, one: str, many: str | None = None) -> str:
    """`1 input`, `3 inputs`."""
    return f"{number(count)} {one if count == 1 else many or one + 's'}"


def join_words(parts: Iterable[str], most: int = 4) -> str:
    """`a, b and c`; what is more than `most` is counted."""
    parts = list(parts)
    if len(parts) > most:
        parts = [*parts[: most - 1], f"{number(len(parts) - most + 1)} more"]
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}" if parts else "nothing"
