"""The types of option values, with their limits, among them clients and the tags of runs.

`parse` reads a value from text, for the command line. `accept` checks a value that has a type, for TOML and Python.
Both return the value, or raise `UsageError` with a sentence that names the option and the values that it may have.
"""

import math
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from harness.common.errors import UsageError
from harness.common.wording import on_one_line, redact_setting, redact_text, unknown
from harness.environment.versions import CLIENTS, ClientVersion, client_version

_UNITS_S = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = "a duration, such as 90m or 2h"
_VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+_-]{0,31}")
_MUST_BE = f"one of {', '.join(CLIENTS)}, with or without a version, such as librdkafka:2.16.1"


class OptionKind(Protocol):
    """The type of the values of an option."""

    def parse(self, key: str, text: str) -> Any:
        """Read a value from text. Raises `UsageError`."""
        ...

    def accept(self, key: str, value: object) -> Any:
        """Check a value from TOML or Python, and return it. Raises `UsageError`."""
        ...


def refuse(key: str, must_be: str, value: object) -> UsageError:
    """Return the error to raise: `workers must be a whole number from 1 to 16, not "three"`."""
    shown = (
        f'"{on_one_line(redact_setting(key, value))}"' if isinstance(value, str) else redact_text(repr(value))
    )
    return UsageError(f"{key} must be {must_be}, not {shown}")


@dataclass(frozen=True)
class WholeNumber:
    """A whole number from `low` to `high`."""

    low: int
    high: int

    def parse(self, key: str, text: str) -> int:
        try:
            return self.accept(key, int(text))
        except ValueError:
            raise refuse(key, self._must_be(), text) from None

    def accept(self, key: str, value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not self.low <= value <= self.high:
            raise refuse(key, self._must_be(), value)
        return value

    def _must_be(self) -> str:
        if self.low == self.high:
            return f"{self.low} in this version"
        return f"a whole number from {self.low} to {self.high}"


@dataclass(frozen=True)
class Number:
    """A finite number from `low` to `high`."""

    low: float
    high: float
    unit: str = ""

    def parse(self, key: str, text: str) -> float:
        try:
            return self.accept(key, float(text))
        except ValueError:
            raise refuse(key, self._must_be(), text) from None

    def accept(self, key: str, value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise refuse(key, self._must_be(), value)
        if not math.isfinite(value) or not self.low <= value <= self.high:
            raise refuse(key, self._must_be(), value)
        return float(value)

    def _must_be(self) -> str:
        return f"a number from {self.low:g} to {self.high:g}{' ' + self.unit if self.unit else ''}"


@dataclass(frozen=True)
class Duration:
    """A duration in seconds: `90`, `90s`, `45m`, `2h`. A number is in seconds."""

    def parse(self, key: str, text: str) -> float:
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", text.strip())
        seconds = float(match[1]) * _UNITS_S[match[2]] if match else 0.0
        if not 0 < seconds < math.inf:
            raise refuse(key, _DURATION, text)
        return seconds

    def accept(self, key: str, value: object) -> float:
        if isinstance(value, str):
            return self.parse(key, value)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
            raise refuse(key, _DURATION, value)
        return float(value)


@dataclass(frozen=True)
class Switch:
    """True or false."""

    def parse(self, key: str, text: str) -> bool:
        values = {"true": True, "false": False}
        if text.lower() not in values:
            raise refuse(key, "true or false", text)
        return values[text.lower()]

    def accept(self, key: str, value: object) -> bool:
        if not isinstance(value, bool):
            raise refuse(key, "true or false", value)
        return value


@dataclass(frozen=True)
class Text:
    """A text that fully matches a pattern."""

    must_be: str
    pattern: str = r"[^\x00-\x1f\x7f]+"

    def parse(self, key: str, text: str) -> str:
        return self.accept(key, text)

    def accept(self, key: str, value: object) -> str:
        if not isinstance(value, str) or not re.fullmatch(self.pattern, value) or not _is_unicode(value):
            raise refuse(key, self.must_be, value)
        return value


@dataclass(frozen=True)
class OneOf:
    """One of a few words."""

    words: tuple[str, ...]

    def parse(self, key: str, text: str) -> str:
        return self.accept(key, text)

    def accept(self, key: str, value: object) -> str:
        if not isinstance(value, str):
            raise refuse(key, f"one of {', '.join(self.words)}", value)
        if value not in self.words:
            raise UsageError(unknown(key, value, self.words))
        return value


@dataclass(frozen=True)
class Names:
    """A list of names, or one text with commas between the names."""

    def parse(self, key: str, text: str) -> tuple[str, ...]:
        names = [name.strip() for name in text.split(",")]
        if not all(names):
            raise refuse(key, "a list of names with commas between them", text)
        if spaced := next((name for name in names if " " in name), None):
            raise UsageError(f'{key} has "{on_one_line(spaced)}": write commas between names')
        return self.accept(key, names)

    def accept(self, key: str, value: object) -> tuple[str, ...]:
        must_be = 'a list of names, or "none"'
        if isinstance(value, str):
            return self.parse(key, value)
        if not isinstance(value, list | tuple) or not value:
            raise refuse(key, must_be, value)
        for name in value:
            if not isinstance(name, str) or not name:
                raise refuse(key, must_be, name)
        if len(set(value)) < len(value):
            raise UsageError(f"{key} contains a name twice: {on_one_line(', '.join(value))}")
        if "none" in value and len(value) > 1:
            raise UsageError(
                f'{key} has "none" and other names: {on_one_line(", ".join(value))}; leave one of them out'
            )
        return tuple(value)


@dataclass(frozen=True)
class SettingsTable:
    """The settings of another program, such as Spark: a mapping of names to texts."""

    names: str  # the pattern of the names
    must_be: str

    def parse(self, key: str, text: str) -> dict[str, str]:
        name, equals, value = text.partition("=")
        if not equals:
            raise refuse(key, "NAME=VALUE", text)
        return self.accept(key, {name.strip(): value})

    def accept(self, key: str, value: object) -> dict[str, str]:
        if not isinstance(value, Mapping):
            raise refuse(key, "a table of names and values", value)
        for name, setting in value.items():
            if not isinstance(name, str) or not re.fullmatch(self.names, name):
                raise refuse(f"a name in {key}", self.must_be, name)
            if (
                not isinstance(setting, str)
                or not _is_unicode(setting)
                or "\n" in setting
                or "\x00" in setting
            ):
                raise refuse(f"{key}.{name}", "a text of one line", setting)
        return dict(value)


@dataclass(frozen=True)
class Rules:
    """Rules for Kafka's messages: a rule as text, or a TOML file with `[[rule]]`. The value is a tuple of texts.

    `Options.validated` reads the files and checks the rules, because a stored run is judged without its rules.
    """

    def parse(self, key: str, text: str) -> tuple[str, ...]:
        return (text,)

    def accept(self, key: str, value: object) -> tuple[str, ...]:
        if isinstance(value, str):
            return (value,)
        if not isinstance(value, list | tuple) or not all(isinstance(each, str) for each in value):
            raise refuse(key, "a list of rules, each as a text", value)
        return tuple(value)


def _is_unicode(text: str) -> bool:
    """Return whether a text can be stored. An argument that cannot be decoded has lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


PATH = Text("the path of a folder")
TOOL = Text("auto, bundled, or a path")
SPARK = SettingsTable(r"spark\.[^\s=]+", 'the name of a Spark setting, which begins with "spark."')
BROKER = SettingsTable(r"[a-z][a-z0-9._-]*", "the name of a setting of Kafka's brokers")


@dataclass(frozen=True)
class ClientChoice:
    """The client and its version.

    Without a version it is the installed librdkafka, or the Java client of the cluster's version.
    """

    name: str  # librdkafka, java
    version: str | None = None

    @classmethod
    def of(cls, option: str) -> "ClientChoice":
        """Read a value that `ClientKind` has accepted."""
        name, _, version = option.partition(":")
        return cls(name, version or None)

    @property
    def pinned(self) -> ClientVersion | None:
        """The pinned version. None: the option has no version. Raises `UsageError` if no lock file pins the version."""
        return None if self.version is None else client_version(self.name, self.version)

    @property
    def notes(self) -> str:
        """The notes about the pinned version. Empty: there are none."""
        return self.pinned.notes if self.pinned is not None else ""


@dataclass(frozen=True)
class ClientKind:
    """A client, with or without a version: `librdkafka`, `java:3.9.1`. `Options.validated` checks the version."""

    def parse(self, key: str, text: str) -> str:
        return self.accept(key, text)

    def accept(self, key: str, value: object) -> str:
        if not isinstance(value, str):
            raise refuse(key, _MUST_BE, value)
        name, colon, version = value.partition(":")
        if name not in CLIENTS:
            raise UsageError(unknown(key, name, CLIENTS))
        if colon and not _VERSION.fullmatch(version):
            raise refuse(key, _MUST_BE, value)
        return value


PREFIX = Text("1 to 60 letters, digits, dots, underscores and hyphens", r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}")
"""The type of the option `prefix`. Each tag begins with its value. Kafka permits these characters in topic names."""
IDLE = "10m"
"""The default age of the last record of a run after which `fencepost clean` considers the run dead."""


KEPT_SUFFIX = "-kept"
"""The end of the prefix if a run leaves its topics on purpose, so that `fencepost clean` does not delete them."""


def new_tag(prefix: str, *, keep_topics: bool = False) -> str:
    """Return a new tag. `keep_topics`: the run leaves its topics on purpose."""
    return f"{prefix}{KEPT_SUFFIX if keep_topics else ''}-{secrets.token_hex(3)}"


def prefix_of(tag: str) -> str:
    """Return the value of the option `prefix` from a tag."""
    return tag.rpartition("-")[0].removesuffix(KEPT_SUFFIX)


def _tag_pattern(prefix: str) -> re.Pattern[str]:
    """Return the pattern of names with a tag: TAG or TAG-... . `prefix` is the pattern of the prefix."""
    return re.compile(rf"(?P<tag>(?P<prefix>{prefix})-[0-9a-f]{{6}})(?:-.*)?", re.DOTALL)


def tag_of(name: str, prefix: str) -> str | None:
    """Return the tag in the name of a topic or a group. None: no run with this prefix has created it."""
    match = _tag_pattern(re.escape(prefix)).fullmatch(name)
    return match["tag"] if match else None


def longest_prefix(name: str) -> str | None:
    """Return the longest prefix with which a run may have created this name, or None.

    For `a-0b1c2d-3e4f5a-in` it is `a-0b1c2d`.
    """
    match = _tag_pattern(PREFIX.pattern).fullmatch(name)
    return match["prefix"] if match else None
