"""Names that a user may type, and what to say of one that nobody knows."""

import difflib
from collections.abc import Collection

from harness.common.errors import UsageError


def nearest(name: str, known: Collection[str]) -> str | None:
    """The known name that looks most like `name`, or None if none does."""
    close = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.6)
    return close[0] if close else None


def on_one_line(text: str) -> str:
    """What a user typed, for a sentence: control characters and the like are escaped."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def unknown(kind: str, name: str, known: Collection[str]) -> str:
    """One sentence: there is no such `kind`; what was probably meant, or all that there is."""
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
