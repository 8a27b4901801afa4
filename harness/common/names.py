"""Names that a user may type, and messages about unknown names."""

import difflib
from collections.abc import Collection

from harness.common.errors import UsageError

HARNESS_CLIENT_ID = "fencepost-harness"
"""The client id of the requests that the harness itself sends. No rule acts on them."""


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
