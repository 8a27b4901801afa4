"""Encode dataclasses that are sent between processes as JSON, and decode them strictly.

`decode` raises `DecodeError` for a missing or unknown field, and for a value of a wrong type. Both processes run the
same release, so a difference is a bug in Fencepost. A field may be left out only if it has a default.

Types that a field may have: dataclasses, `str`, `int`, `float`, `bool`, `Path`, enumerations, `None`, `tuple`,
`Sequence` (decoded as a tuple), `Mapping` with keys of type `str` or `int`, `Literal`, and unions of these. The
dataclasses of a union are distinguished by a field `kind`, for example `kind: Literal["feeder"] = "feeder"`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import orjson

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    T = TypeVar("T", bound=DataclassInstance)
else:
    T = TypeVar("T")


class DecodeError(ValueError):
    """A text is not the JSON of the expected dataclass. The message names the field."""


def encode(message: "DataclassInstance") -> bytes:
    """Encode a dataclass as one line of JSON, without the line break."""
    return orjson.dumps(message, default=_plain, option=orjson.OPT_NON_STR_KEYS)


def decode(kind: type[T], text: str | bytes) -> T:
    """Decode a dataclass of type `kind`. Raises `DecodeError`."""
    try:
        body = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise DecodeError(f"a {kind.__name__} is not JSON: {error}") from error
    decoded: T = _decoded(kind, body, kind.__name__)
    return decoded


def _plain(value: object) -> str:
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{value!r} cannot be encoded")


@cache
def _fields_of(kind: type["DataclassInstance"]) -> tuple[Mapping[str, Any], frozenset[str]]:
    """Return the types of the fields by name, and the names of the fields without a default."""
    hints = get_type_hints(kind)
    required = (
        field.name for field in fields(kind) if field.default is MISSING and field.default_factory is MISSING
    )
    return {field.name: hints[field.name] for field in fields(kind)}, frozenset(required)


def _decoded(kind: Any, value: Any, where: str) -> Any:
    """Decode a JSON value. `where` names the value in an error message."""
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return _one_of(args, value, where)
    if origin is Literal:
        if value not in args:
            raise DecodeError(f"{where} is {value!r}, and not one of {args}")
        return value
    if origin in (tuple, Sequence, Mapping):
        return _collection(kind, value, where)
    if is_dataclass(kind):
        return _dataclass(kind, value, where)
    return _scalar(kind, value, where)


def _collection(kind: Any, value: Any, where: str) -> Any:
    origin, args = get_origin(kind), get_args(kind)
    if origin is Mapping:
        _require(isinstance(value, dict), kind, value, where)
        return {
            _key(args[0], key, where): _decoded(args[1], item, f"{where}.{key}")
            for key, item in value.items()
        }
    _require(isinstance(value, list), kind, value, where)
    if origin is Sequence or args[-1] is Ellipsis:
        return tuple(_decoded(args[0], item, where) for item in value)
    _require(len(value) == len(args), kind, value, where)
    return tuple(_decoded(item_kind, item, where) for item_kind, item in zip(args, value, strict=True))


def _dataclass(kind: Any, body: Any, where: str) -> Any:
    _require(isinstance(body, dict), kind, body, where)
    types, required = _fields_of(kind)
    if unknown := sorted(body.keys() - types.keys()):
        raise DecodeError(f"{where} has no field {', '.join(unknown)}")
    if missing := sorted(required - body.keys()):
        raise DecodeError(f"{where} lacks the field {', '.join(missing)}")
    return kind(**{name: _decoded(types[name], value, f"{where}.{name}") for name, value in body.items()})


def _one_of(kinds: Sequence[Any], value: Any, where: str) -> Any:
    """Decode a value of a union: a dataclass by its `kind`, anything else as the first type that it fits."""
    by_kind = {
        dataclass.kind: dataclass
        for dataclass in kinds
        if is_dataclass(dataclass) and hasattr(dataclass, "kind")
    }
    if isinstance(value, dict) and by_kind:
        if value.get("kind") not in by_kind:
            raise DecodeError(f"{where} is of kind {value.get('kind')!r}, and not one of {sorted(by_kind)}")
        return _decoded(by_kind[value["kind"]], value, where)
    errors = []
    for kind in kinds:
        try:
            return _decoded(kind, value, where)
        except DecodeError as error:
            errors.append(str(error))
    raise DecodeError("; ".join(errors))


def _key(kind: Any, key: str, where: str) -> Any:
    """Decode the key of a mapping, which is always a string in JSON."""
    if kind is not int:
        return _decoded(kind, key, where)
    try:
        return int(key)
    except ValueError as error:
        raise DecodeError(f"{where} has the key {key!r}, and not a number") from error


def _scalar(kind: Any, value: Any, where: str) -> Any:
    if kind in (NoneType, None):
        _require(value is None, kind, value, where)
        return None
    if kind is float:
        _require(type(value) in (int, float), kind, value, where)
        return float(value)
    if kind in (str, int, bool):
        _require(type(value) is kind, kind, value, where)
        return value
    if kind is Path:
        _require(isinstance(value, str), kind, value, where)
        return Path(value)
    if isinstance(kind, type) and issubclass(kind, Enum):
        try:
            return kind(value)
        except ValueError as error:
            raise DecodeError(f"{where}: {error}") from error
    raise TypeError(f"{where} has a type that cannot be decoded: {kind!r}")


def _require(is_valid: bool, kind: Any, value: Any, where: str) -> None:
    if not is_valid:
        raise DecodeError(f"{where} is {str(value)[:60]!r}, and not a {getattr(kind, '__name__', kind)}")
