"""What is filled in where a command, its environment or a transactional id says `{bootstrap}`."""

import re
from collections.abc import Collection, Mapping

from harness.names import nearest, unknown
from pipelines.table import Table

NAMES = ("bootstrap", "instance", "run", "data")
"""The brokers, the number of the instance from 1, the run's folder name, a folder of the instance's own."""
PLACE = re.compile(r"\{([a-z_]+)\}")


def require_known(table: Table, key: str, text: str, known: Collection[str] = NAMES) -> None:
    """Raise `UsageError` where a text has what looks like a placeholder, and is none, or none of those known there."""
    for name in PLACE.findall(text):
        if name not in known and (name in NAMES or nearest(name, known)):
            raise table.error(f"has {{{name}}}: {unknown('placeholder', name, known)}", key)


def filled(text: str, values: Mapping[str, str]) -> str:
    """The text with what its placeholders stand for; other braces stay."""
    return PLACE.sub(lambda found: values.get(found[1], found[0]), text)
