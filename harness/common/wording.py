"""Words for users: show values safely and briefly, suggest known names, and replace secrets.

A recorded value may contain anything: markup, control characters, marks that change the direction of writing, a key of
a megabyte. Reports escape markup where they write HTML or XML. This module does everything else.

Secrets are: the value of a setting whose name says so (`spark.hadoop.fs.s3a.secret.key`), the user and the password in
a URL, and within another text the value after `password=`, `"password":`, `--password` or `Bearer`. Only names decide,
as in Spark's `spark.redaction.regex`. A secret whose name does not say so is not recognised.
"""

import difflib
import json
import math
import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping

from harness.common.errors import UsageError

LIMIT = 160
_HIDDEN = frozenset("\u200b\u200c\u200e\u200f\u2028\u2029\u2060\u061c\ufeff\ufffe\uffff")
_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
HARNESS_CLIENT_ID = "fencepost-harness"
"""The client id of the requests that the harness itself sends. No rule acts on them."""
REDACTED = "<redacted>"
"""The placeholder of a secret in `run.toml` and in the command that repeats a run. A run refuses it as a value."""

SECRET_WORDS = r"secret|passw(?:or)?d|passphrase|token|jaas|(?:access|api|private|account|shared)[._-]?key"
"""A pattern for the words in a name that say that its value is a secret."""
_NAME = re.compile(rf"{SECRET_WORDS}|(?:^|[._-])(?:key|pwd|auth)(?:$|[._-])|credentials?$", re.IGNORECASE)
_USERINFO = re.compile(r"(?<=://)[^\s/?#'\"]*@")
_QUOTED = r"\"[^\"]*\"|'[^']*'"
_WITHIN = re.compile(
    rf"((?:{SECRET_WORDS})[\w.-]*\s*=\s*|"  # -Dsome.password=..., ?token=...
    rf"(?:{SECRET_WORDS})[\w.-]*[\"']\s*:\s*|"  # "some.password": "..."
    rf"--?[\w.-]*(?:{SECRET_WORDS})[\w.-]*\s+(?!-)|"  # --some-password ...
    rf"\bBearer\s+)({_QUOTED}|[^\s\"'&;,]+)",
    re.IGNORECASE,
)


def printable(value: object, limit: int = LIMIT) -> str:
    """Return a value as one line of text without invisible characters, at most about `limit` characters long.

    Control, format and surrogate characters become escapes (`\\x1b`, `\\u202e`). Lists and mappings become JSON.
    None becomes "unknown".
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
    return "".join(_printable_character(character) for character in shorten(text, limit))


def shorten(text: str, limit: int = LIMIT) -> str:
    """Return the text; if it is longer than `limit`, its two ends and how many characters were left out."""
    if len(text) <= limit:
        return text
    head, tail = limit * 2 // 3, limit // 6
    cut = f"{text[:head]} … {number(len(text) - head - tail)} characters left out … {text[-tail:]}"
    return min(text, cut, key=len)


def error_code(error: str) -> str:
    """Return the code at the start of an error: `UNKNOWN_MEMBER_ID` of `UNKNOWN_MEMBER_ID (abortable): Failed ...`."""
    return printable(error.partition(":")[0].partition(" (")[0], 60)


def _printable_character(character: str) -> str:
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
    """Return the value if it is an integer of 64 bits, else None. Findings may contain anything."""
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if -(2**63) <= value < 2**63 else None


def number(value: float) -> str:
    """Return a number with separators of thousands. A fraction has at most three significant digits."""
    if not math.isfinite(value):
        return str(value)
    if value == int(value):
        return f"{int(value):,}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def seconds(value: float | None) -> str:
    """Return a time or a duration in seconds: `12.3 s`. None becomes "unknown"."""
    return "unknown" if value is None else f"{value:,.1f} s"


def duration(seconds: float) -> str:
    """Return a duration for people: `45 s`, `12 min`, `1 h 05 min`, `3 d 04 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours = minutes // 60
    return f"{hours} h {minutes % 60:02} min" if hours < 48 else f"{number(hours // 24)} d {hours % 24:02} h"


def milliseconds(value: float) -> str:
    """Return a duration in milliseconds; from one second on, in seconds."""
    return f"{value / 1000:.3g} s" if value >= 1000 else f"{value:.3g} ms"


def size(octets: int) -> str:
    """Return the size of a file: `12.3 kB`."""
    if octets < 1000:
        return f"{octets} B"
    for unit, scale in (("kB", 1e3), ("MB", 1e6), ("GB", 1e9)):
        if octets < 1000 * scale:
            return f"{octets / scale:.3g} {unit}"
    return f"{octets / 1e12:.3g} TB"


def plural(count: int, singular: str, plural_form: str | None = None) -> str:
    """Return a count and its noun: `1 input`, `3 inputs`."""
    return f"{number(count)} {singular if count == 1 else plural_form or singular + 's'}"


def join_words(parts: Iterable[str], most: int = 4) -> str:
    """Return `a, b and c`. If there are more than `most` parts, the last ones are only counted."""
    parts = list(parts)
    if len(parts) > most:
        parts = [*parts[: most - 1], f"{number(len(parts) - most + 1)} more"]
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}" if parts else "nothing"


def nearest(name: str, known: Collection[str]) -> str | None:
    """Return the known name that is most similar to `name`, or None if no name is similar."""
    close = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.6)
    return close[0] if close else None


def on_one_line(text: str) -> str:
    """Escape control characters in text that a user typed, so that a message can show it."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def unknown(kind: str, name: str, known: Collection[str]) -> str:
    """Return a sentence: there is no such `kind`, and the most similar name or all known names."""
    name = on_one_line(name)
    close = nearest(name, known)
    if close:
        return f'there is no {kind} "{name}"; did you mean "{close}"?'
    if not known:
        return f'there is no {kind} "{name}", nor any other'
    return f'there is no {kind} "{name}"; there is {", ".join(sorted(known))}'


def check_name(kind: str, name: str, known: Collection[str]) -> None:
    """Raise `UsageError` unless `name` is known."""
    if name not in known:
        raise UsageError(unknown(kind, name, known))


def is_secret(name: str) -> bool:
    """Return whether the name of a setting says that its value is a secret."""
    return _NAME.search(name) is not None


def redact_text(text: str) -> str:
    """Replace the user and password of each URL in a text, and each value that follows the name of a secret."""
    return _WITHIN.sub(rf"\1{REDACTED}", _USERINFO.sub(f"{REDACTED}@", text))


def redact_setting(name: str, value: str) -> str:
    """Return the value of a setting, or the placeholder if it is a secret."""
    if value.lower() in ("true", "false"):  # spark.hadoop.hadoop.security.token.service.use_ip
        return value
    return REDACTED if is_secret(name) else redact_text(value)


def redacted_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Return settings by name, with the placeholder for each secret."""
    return {name: redact_setting(name, value) for name, value in settings.items()}
