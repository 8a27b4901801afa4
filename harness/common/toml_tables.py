"""Check a table that a user has written, such as `[[stage]]` of pipeline.toml, against a dataclass or a struct.

msgspec checks the table. This module writes the messages: those of msgspec lack the value, an example and the nearest
name.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from enum import Enum
from types import NoneType
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from harness.common.wording import unknown

T = TypeVar("T")
NO_NUL = "a string without a NUL character"
Text = Annotated[str, Meta(pattern=r"^[^\0]+\Z", description=NO_NUL)]
"""A text that can be a command, a name or a path. It is not empty."""
TextOrEmpty = Annotated[str, Meta(pattern=r"^[^\0]*\Z", description=NO_NUL)]


def matches(pattern: str, description: str, example: str | None = None) -> Meta:
    """Return the `Meta` of a string that must match the whole pattern.

    `example` is TOML, and is shown if the key is missing.
    """
    return Meta(
        pattern=rf"^(?:{pattern})\Z", description=description, examples=None if example is None else [example]
    )


class WrongTable(ValueError):
    """A table is wrong. `problem` completes a sentence about `key`, or about the table if `key` is empty."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(f"{key} {problem}".strip())
        self.key, self.problem = key, problem


def convert_table(table: object, kind: type[T]) -> T:
    """Return the value of type `kind` that a table describes. Raises `WrongTable` for the first mistake.

    `Meta` of a field may have an example, which is shown if the key is missing or its list is empty.
    """
    if not isinstance(table, dict):
        raise WrongTable("", f"must be a table, not {table!r}")
    hints = _hints(kind)
    for key in table:
        if key not in hints:
            raise WrongTable("", f"has an unknown key: {unknown('key', key, sorted(hints))}")
    try:
        return msgspec.convert(table, kind)
    except msgspec.ValidationError as error:
        if missing := re.fullmatch(r"Object missing required field `(.*)`", str(error)):
            example = _example(hints[missing[1]])
            raise WrongTable(missing[1], f"is missing; write for example {missing[1]} = {example}") from error
        for key, value in table.items():
            if not _fits(value, hints[key]):
                raise _wrong_value(key, value, hints[key]) from error
        raise


def _hints(kind: type[Any]) -> dict[str, Any]:
    """Return the types of the keys of a table."""
    hints = get_type_hints(kind, include_extras=True)
    if is_dataclass(kind):
        return {name: hints[name] for name in kind.__dataclass_fields__}
    names = zip(kind.__struct_encode_fields__, kind.__struct_fields__, strict=True)
    return {key: hints[name] for key, name in names}


def _fits(value: object, hint: Any) -> bool:
    try:
        msgspec.convert(value, hint)
    except msgspec.ValidationError:
        return False
    return True


def _wrong_value(key: str, value: object, hint: Any) -> WrongTable:
    """Say what is wrong with the value of a key, or with an element of it."""
    plain, _ = _unwrapped(hint)
    for name, element, inner in _elements(key, value, plain):
        if not _fits(element, inner):
            return _wrong_value(name, element, inner)
    if value == []:
        return WrongTable(key, f"must have at least one element, for example {_example(hint)}")
    return WrongTable(key, f"must be {_describe(hint, value)}, not {value!r}")


def _elements(key: str, value: object, plain: Any) -> Iterator[tuple[str, object, Any]]:
    """Yield the elements of a list or a table, each with its name in messages and its type."""
    if get_origin(plain) is tuple and isinstance(value, list):
        yield from ((f"{key}[{n}]", element, get_args(plain)[0]) for n, element in enumerate(value))
    elif get_origin(plain) is Mapping and isinstance(value, dict):
        yield from ((f"{key}.{name}", element, get_args(plain)[1]) for name, element in value.items())


def _unwrapped(hint: Any) -> tuple[Any, Meta]:
    """Return a type without `Annotated` and `| None`, and its `Meta`."""
    options = [each for each in get_args(hint) if each is not NoneType]
    if NoneType in get_args(hint) and len(options) == 1:
        hint = options[0]
    if get_origin(hint) is Annotated:
        return hint.__origin__, hint.__metadata__[0]
    return hint, Meta()


def _example(hint: Any) -> str:
    _, meta = _unwrapped(hint)
    return str((meta.examples or ["..."])[0])


def _describe(hint: Any, value: object) -> str:
    """Describe the values that a type has, in words that complete "must be ..."."""
    plain, meta = _unwrapped(hint)
    if plain in (int, float):
        return f"a{' whole' if plain is int else ''} number{_limits(meta)}"
    if get_origin(plain) is Literal:
        return meta.description or f"one of {', '.join(get_args(plain))}"
    if isinstance(plain, type) and issubclass(plain, Enum):
        return f"one of {', '.join(each.value for each in plain)}"
    if plain is str and meta.description and isinstance(value, str) and value:
        return meta.description
    return _TYPE_NAMES[get_origin(plain) or plain]


_TYPE_NAMES = {str: "a string", bool: "true or false", tuple: "a list of strings", Mapping: "a table"}


def _limits(meta: Meta) -> str:
    if meta.ge is not None and meta.le is not None:
        return f" from {meta.ge:g} to {meta.le:g}"
    limits = [
        f" above {meta.gt:g}" if meta.gt is not None else "",
        f" of at least {meta.ge:g}" if meta.ge is not None else "",
        f", and at most {meta.le:g}" if meta.le is not None else "",
    ]
    return "".join(limits)
