"""Encode messages that are sent between processes as JSON, and decode them strictly.

Both processes run the same release, so a difference is a bug in Fencepost: a missing or unknown field, or a value of a
wrong type, is a `DecodeError`. A field may be left out only if it has a default. The messages of a union have a tag,
for example `class FeederSpec(ProcessMessage, frozen=True, tag_field="kind", tag="feeder")`.
"""

from pathlib import Path
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


class ProcessMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The base class of messages, and of the parts of messages."""


class DecodeError(ValueError):
    """A text is not the JSON of the expected message. The error of msgspec names the field."""


def encode(message: msgspec.Struct) -> bytes:
    """Encode a message as one line of JSON, without the line break."""
    return msgspec.json.encode(message, enc_hook=_text)


def decode(kind: type[T], text: str | bytes) -> T:
    """Decode a message of type `kind`. Raises `DecodeError`."""
    try:
        return msgspec.json.decode(text, type=kind, dec_hook=_path)
    except msgspec.MsgspecError as error:
        raise DecodeError(f"not a {kind.__name__}: {error}") from error


def _text(value: object) -> str:
    if isinstance(value, Path):
        return str(value)
    raise NotImplementedError(f"{value!r} cannot be encoded")


def _path(kind: type, value: Any) -> object:
    if kind is not Path:
        raise NotImplementedError(f"{kind!r} cannot be decoded")
    if not isinstance(value, str):
        raise TypeError(f"Expected `str`, got {value!r}")
    return Path(value)
