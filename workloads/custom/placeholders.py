"""Placeholders such as `{bootstrap}` in a command, its environment or a transactional id."""

import re
from collections.abc import Collection, Iterable, Mapping

from harness.common.names import nearest, unknown
from workloads.custom.table import TomlTable

NAMES = (
    *("bootstrap", "instance", "run", "data", "client_config", "kafka_jars"),
    *("prefix", "group", "transactional_id"),
)
"""The placeholders. They stand for: the bootstrap servers; the number of the instance, from 1; the name of the run
folder; a data folder for the instance; the file of client properties; the class path of the run's version of Kafka;
the prefix of all names of the run; the consumer group and the transactional id of the stage.
"""
TOPIC = "topic:"
"""The prefix of the placeholder for a topic's name."""
PLACEHOLDER = re.compile(r"\{([a-z_]+|topic:[A-Za-z0-9._-]+)\}")


def require_known(
    table: TomlTable, key: str, text: str, known: Collection[str] = NAMES, topics: bool = False
) -> None:
    """Raise `UsageError` for a placeholder that is misspelled or not allowed here.

    If `topics` is true, the text may also name topics. They are checked later, when all stages are known.
    """
    for name in PLACEHOLDER.findall(text):
        if name.startswith(TOPIC) and topics:
            continue
        if name.startswith(TOPIC) or (name not in known and (name in NAMES or nearest(name, known))):
            raise table.error(f"has {{{name}}}: {unknown('placeholder', name, known)}", key)


def topics_in(texts: Iterable[str]) -> set[str]:
    """Return the topics that the texts name in placeholders."""
    names = {name for text in texts for name in PLACEHOLDER.findall(text)}
    return {name.removeprefix(TOPIC) for name in names if name.startswith(TOPIC)}


def fill_placeholders(text: str, values: Mapping[str, str]) -> str:
    """Replace the placeholders in a text. Other braces stay."""
    return PLACEHOLDER.sub(lambda match: values.get(match[1], match[0]), text)
