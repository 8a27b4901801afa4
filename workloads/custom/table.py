"""A table of a TOML file, read key by key. Every value is checked, and unknown keys are errors."""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.common.errors import UsageError
from harness.common.names import unknown
from workloads.custom.description import UserFunction

NUMBER = (int, float)


class TomlTable:
    """One table. Every error message names the file, the table and the key."""

    def __init__(self, file: Path, where: str, body: object) -> None:
        """`where` names the table in messages: `[[stage]] bill`. It is empty for the file itself."""
        self._file, self._where = file, where
        if not isinstance(body, dict):
            raise self.error(f"must be a table, not {body!r}")
        self._body: dict[str, Any] = body
        self._read_keys: list[str] = []

    def error(self, problem: str, key: str = "") -> UsageError:
        """Return an error about a key, or about the table."""
        where = " ".join(part for part in (self._where, key) if part)
        return UsageError(f"{self._file}: {where or 'it'} {problem}")

    def get(self, key: str) -> Any:
        """Return the value of a key, or None."""
        self._read_keys.append(key)
        return self._body.get(key)

    def text(self, key: str) -> str | None:
        """Return a text that is not empty, or None if the key is missing."""
        value = self.get(key)
        if value is not None and (not isinstance(value, str) or not value):
            raise self.error(f"must be a string, not {value!r}", key)
        self._require_plain(key, value or "")
        return value

    def _require_plain(self, key: str, *texts: str) -> None:
        """Raise for a NUL character: no command, name or path can contain one."""
        for text in texts:
            if "\0" in text:
                raise self.error(f"must not hold a NUL character, as {text!r} does", key)

    def required_text(self, key: str, example: str) -> str:
        """Return a text, or raise with the example if it is missing."""
        value = self.text(key)
        if value is None:
            raise self.error(f"is missing; write for example {key} = {example}", key)
        return value

    def whole_number(self, key: str, low: int, high: int, default: int | None) -> int | None:
        """Return a whole number between `low` and `high`."""
        value = self.get(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self.error(f"must be a whole number from {low} to {high}, not {value!r}", key)
        return value

    def number(self, key: str, low: float, high: float, default: float) -> float:
        """Return a finite number between `low` and `high`."""
        value = self.get(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, NUMBER) or not math.isfinite(value):
            raise self.error(f"must be a number, not {value!r}", key)
        if not low <= value <= high:
            raise self.error(f"must be a number from {low:g} to {high:g}, not {value:g}", key)
        return float(value)

    def boolean(self, key: str, default: bool) -> bool:
        value = self.get(key)
        if value is not None and not isinstance(value, bool):
            raise self.error(f"must be true or false, not {value!r}", key)
        return default if value is None else value

    def texts(self, key: str, *, example: str = "") -> tuple[str, ...]:
        """Return a list of texts. With an `example`, the list must not be empty, and messages show the example."""
        value = self.get(key)
        if value is None and example:
            raise self.error(f"is missing; write for example {key} = {example}", key)
        if value is not None and (
            not isinstance(value, list) or not all(isinstance(text, str) and text for text in value)
        ):
            raise self.error(f"must be a list of strings, not {value!r}", key)
        if example and not value:
            raise self.error(f"must have at least one element, for example {example}", key)
        self._require_plain(key, *(value or ()))
        return tuple(value or ())

    def pairs(self, key: str) -> Mapping[str, str]:
        """Return a table of texts. Numbers and booleans are converted to text."""
        value = self.get(key)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self.error(f"must be a table, not {value!r}", key)
        for name, item in value.items():
            if not isinstance(item, str | int | float):
                raise self.error(f"must hold strings or numbers, not {item!r}", f"{key}.{name}")
            self._require_plain(key, name, str(item))
        return {
            name: str(item).lower() if isinstance(item, bool) else str(item) for name, item in value.items()
        }

    def __iter__(self) -> Iterator[str]:
        """Iterate over the keys."""
        return iter(self._body)

    def table(self, key: str) -> "TomlTable | None":
        """Return the table under a key, or None."""
        value = self.get(key)
        where = f"{self._where}.{key}".strip(".") if self._where else f"[{key}]"
        return None if value is None else TomlTable(self._file, where, value)

    def tables(self, key: str) -> "dict[str, TomlTable]":
        """Return the tables in the table under a key, by name."""
        value = self.get(key)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self.error(f"must be a table of tables, not {value!r}", key)
        return {name: TomlTable(self._file, f"[{key}.{name}]", body) for name, body in value.items()}

    def function(self, key: str) -> UserFunction | None:
        """Return the function that `FILE.py:NAME` names; the file must exist."""
        value = self.text(key)
        return None if value is None else self.as_function(key, value)

    def as_function(self, key: str, text: str) -> UserFunction:
        """Return the function that a text names; the file must exist."""
        path, colon, name = text.rpartition(":")
        if not colon or not path.endswith(".py") or not name.isidentifier():
            raise self.error(f'must name a function such as "expect.py:outputs", not {text!r}', key)
        file = self._file.parent / Path(path).expanduser()
        if not file.is_file():
            raise self.error(f"names {file}, which does not exist", key)
        return UserFunction(file, name)

    def path(self, key: str) -> Path | None:
        """Return the path of a file that exists, or None."""
        value = self.text(key)
        if value is None:
            return None
        file = self._file.parent / Path(value).expanduser()
        if not file.is_file():
            raise self.error(f"names {file}, which does not exist", key)
        return file

    def require_all_known(self) -> None:
        """Raise for the first key that was not read, because no other method knows it."""
        for key in self._body:
            if key not in self._read_keys:
                raise self.error(f"has an unknown key: {unknown('key', key, sorted(set(self._read_keys)))}")
