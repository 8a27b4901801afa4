"""The message for a name that a developer's command does not know."""

import difflib
from collections.abc import Collection


def unknown_name(kind: str, name: str, known: Collection[str]) -> str:
    """Return one sentence: the name is not known, and these known names are nearest."""
    near = difflib.get_close_matches(name.lower(), sorted(known), n=3, cutoff=0.5)
    near = near or difflib.get_close_matches(name.lower(), sorted(known), n=3, cutoff=0)
    return f'there is no {kind} "{name}"; the nearest names are {", ".join(near)}'
