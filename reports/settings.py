"""The settings in run.toml as a flat list of names and values, without secrets."""

from collections.abc import Iterator, Mapping
from typing import Any

from harness.common.wording import printable, redact_setting

MOST_CHARACTERS = 400


def flatten(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each setting with its dotted name: `("stages.shop.group", "shop")`.

    The entries of a list of tables are named by their key `name`, or by their number from 1.
    """
    for key, value in settings.items():
        name = f"{prefix}{key}"
        tables = _named_tables(value)
        if tables:
            yield from flatten(tables, f"{name}.")
        else:
            yield name, value


def _named_tables(value: object) -> Mapping[str, Any]:
    """Return a table, or the tables of a list, by name. Empty if the value is neither."""
    if isinstance(value, Mapping):
        return value
    if not isinstance(value, list) or not all(isinstance(table, Mapping) for table in value):
        return {}
    names = [str(table.get("name", n)) for n, table in enumerate(value, 1)]
    unique = len(set(names)) == len(names)
    return dict(zip(names if unique else map(str, range(1, len(value) + 1)), value, strict=True))


def setting_text(name: str, value: object, limit: int = MOST_CHARACTERS) -> str:
    """Return a value as one line of text. A secret is replaced by a placeholder."""
    return printable(redact_setting(name, printable(value, 100_000)), limit)
