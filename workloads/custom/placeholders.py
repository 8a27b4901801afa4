"""What is filled in where a command, its environment or a transactional id says `{bootstrap}`."""

import re
from collections.abc import Collection, Iterable, Mapping

from harness.common.names import nearest, unknown
from workloads.custom.table import TomlTable

NAMES = ("bootstrap", "instance", "run", "data", "client_config", "prefix", "group", "transactional_id")
"""The brokers, the number of the instance from 1, the run's folder name, a folder of the instance's own, the file of
client properties, what all names of the run begin with, the names of its group and of its transactional id.
"""
TOPIC = "topic:"
"""Begins the placeholder of a topic's name."""
PLACE = re.compile(r"\{([a-z_]+|topic:[A-Za-z0-9._-]+)\}")


def require_known(
    table: TomlTable, key: str, text: str, known: Collection[str] = NAMES, topics: bool = False
) -> None:
    """Raise `UsageError` where a text has what looks like a placeholder, and is none, or none of those known there.
    `topics`: it may have topics, which are known once the whole file is read.
    """
    for name in PLACE.findall(text):
        if name.startswith(TOPIC) and topics:
            continue
        if name.startswith(TOPIC) or (name not in known and (name in NAMES or nearest(name, known))):
            raise table.error(f"has {{{name}}}: {unknown('placeholder', name, known)}", key)


def topics_in(texts: Iterable[str]) -> set[str]:
    """The topics whose names are asked for."""
    found = {name for text in texts for name in PLACE.findall(text)}
    return {name.removeprefix(TOPIC) for name in found if name.startswith(TOPIC)}


def fill_placeholders(text: str, values: Mapping[str, str]) -> str:
    """The text with what its placeholders stand for; other braces stay."""
    return PLACE.sub(lambda found: values.get(found[1], found[0]), text)
