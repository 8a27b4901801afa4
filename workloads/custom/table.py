"""A table of `pipeline.toml`. Every error names the file, the table and the key."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from harness.common.errors import UsageError
from harness.common.toml_tables import WrongTable, convert_table
from workloads.custom.description import UserFunction

T = TypeVar("T")


class TomlTable:
    """One table of a file. `where` names the table in messages: `[[stage]] bill`. It is empty for the file itself."""

    def __init__(self, file: Path, where: str, body: Any) -> None:
        self._file, self._where, self.body = file, where, body

    def error(self, problem: str, key: str = "") -> UsageError:
        """Return an error about a key, or about the table."""
        where = " ".join(part for part in (self._where, key) if part)
        return UsageError(f"{self._file}: {where or 'it'} {problem}")

    def read(self, kind: type[T], texts: str = "") -> T:
        """Return what the table describes. Raises `UsageError`.

        `texts` is the key of a table of texts in which numbers and booleans become texts.
        """
        body = self.body
        if isinstance(body, dict) and isinstance(body.get(texts), dict):
            body = body | {texts: {name: _as_text(value) for name, value in body[texts].items()}}
        try:
            return convert_table(body, kind)
        except WrongTable as error:
            raise self.error(error.problem, error.key) from error

    def stage(self, where: str, body: object) -> "TomlTable":
        """Return the table of one [[stage]]."""
        return TomlTable(self._file, where, body)

    def inner(self, key: str) -> "TomlTable":
        """Return the table under a key."""
        where = f"{self._where}.{key}" if self._where else f"[{key}]"
        return TomlTable(self._file, where, self.body[key])

    def tables(self, key: str) -> "Iterator[tuple[str, TomlTable]]":
        """Yield the tables in the table under a key, with their names."""
        for name, body in self.body.get(key, {}).items():
            yield name, TomlTable(self._file, f"[{key}.{name}]", body)

    def function(self, key: str, text: str | None) -> UserFunction | None:
        """Return the function that `FILE.py:NAME` names; the file must exist. None: the key is missing."""
        if text is None:
            return None
        path, colon, name = text.rpartition(":")
        if not colon or not path.endswith(".py") or not name.isidentifier():
            raise self.error(f'must name a function such as "expect.py:outputs", not {text!r}', key)
        file = self.path(key, path)
        assert file is not None
        return UserFunction(file, name)

    def path(self, key: str, text: str | None) -> Path | None:
        """Return the path of a file that exists. None: the key is missing."""
        if text is None:
            return None
        file = self._file.parent / Path(text).expanduser()
        if not file.is_file():
            raise self.error(f"names {file}, which does not exist: correct the path", key)
        return file


def _as_text(value: object) -> object:
    """Return a number or a boolean as text, and any other value as it is."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value
