"""Split EDN into tokens. The keys of a namespaced map get their namespace here: `#:a{:b 1}` becomes `{:a/b 1}`."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from harness.history_files.names import shown

_STOP = r'\s,\[\](){}";\\'
TOKEN = re.compile(
    rf"""[^{_STOP}\#][^{_STOP}]*+ | [\[\](){{}}] | "[^"\\]*+(?:\\.[^"\\]*+)*+" | \#[_{{] | \#[^{_STOP}]*+
    | \\.[^{_STOP}]*+ | ;[^\n]*+ | [^\s,]""",
    re.VERBOSE | re.DOTALL,
)
CLOSES = {"[": "]", "(": ")", "{": "}", "#{": "}"}
SYMBOL = re.compile(r"(?!#)[\w.*+!\-?$%&=<>/:|'#]+")
TAG = re.compile(r"#[^\W\d_].*", re.DOTALL)
NAMESPACE = re.compile(r"#:(?![:\d])[\w.*+!\-?$%&=<>|'#]+")
STARTS_NUMBER = re.compile(r"[+-]?\d")
LITERALS = {"nil", "true", "false"}
"""Tokens that look like symbols, but are constants."""


class EdnError(ValueError):
    """The text is not EDN. The message is the end of a sentence, such as "a # without a value after it"."""


def tokens_of(text: str) -> Iterable[str]:
    """Split the text into tokens. Raises `EdnError` if a namespace has no map."""
    tokens: list[str] = TOKEN.findall(text)
    return with_full_keys(tokens) if "#:" in text else tokens


@dataclass
class _Level:
    """An open bracket: the namespace of its keys or None, and the number of its values and discards so far."""

    namespace: str | None = None
    values: int = 0
    discards: int = 0

    def add_value(self) -> None:
        if self.discards:
            self.discards -= 1
        else:
            self.values += 1


def with_full_keys(tokens: Iterable[str]) -> Iterator[str]:
    """Yield the tokens with each namespaced map written in full: `#:a{:b 1}` as `{:a/b 1}`.

    Only keys that are keywords or symbols get the namespace. A key with a namespace keeps it, and `:_/b` becomes `:b`.
    Comments are left out.

    Raises:
        EdnError: No map follows the namespace, or the namespace is an alias (`#::a`).
    """
    levels = [_Level()]
    prefix = ""
    for token in tokens:
        if token[0] == ";":
            continue
        if prefix and token != "{":
            break
        level = levels[-1]
        if token.startswith("#:"):
            prefix = _namespace(token)
            continue
        if token in CLOSES:
            levels.append(_Level(prefix[2:] or None))
            prefix = ""
        elif token in {"]", ")", "}"}:
            if len(levels) > 1:
                levels.pop()
            levels[-1].add_value()
        elif token == "#_":
            level.discards += 1
        elif not TAG.fullmatch(token):
            is_key = level.values % 2 == 0
            level.add_value()
            yield _with_namespace(token, level.namespace) if level.namespace and is_key else token
            continue
        yield token
    if prefix:
        raise EdnError(f"{shown(prefix)[1:-1]} without a map after it")


def _namespace(token: str) -> str:
    if token.startswith("#::"):
        raise EdnError(
            f"{shown(token)[1:-1]} has a meaning only in the program that wrote it: write the keys of the map in "
            "full, as :a/b"
        )
    if not NAMESPACE.fullmatch(token):
        raise EdnError(f"{shown(token)} means nothing in EDN")
    return token


def _with_namespace(token: str, namespace: str) -> str:
    """Return a keyword or a symbol with the namespace, and any other token unchanged."""
    is_name = SYMBOL.fullmatch(token) and token not in LITERALS and not STARTS_NUMBER.match(token)
    if not is_name:
        return token
    colon = ":" * token.startswith(":")
    name = token.removeprefix(":")
    if name.startswith("_/"):
        return colon + name[2:]
    return token if "/" in name or not name else f"{colon}{namespace}/{name}"
