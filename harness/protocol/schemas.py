"""Decode and encode Kafka's requests and responses by the message schemas of a `kafka-clients` jar.

The jar holds the schemas from which Kafka generates its own classes (`common/message/*.json`). They are interpreted
here, so each API and version of that Kafka release is known without a table of our own. The rules are those of Kafka's
message generator. They include flexible versions: compact lengths and tagged fields (KIP-482).

A decoded message is a dict from the schema's field names to values. A struct is a dict, an array is a list, and a UUID
is 16 bytes. Records and bytes are `memoryview`s of the frame. A tagged field that the sender left out is not in the
dict. Tagged fields that the schema does not know are kept under `UNKNOWN_TAGS`. So a message that is decoded and
encoded again is the same bytes, if its sender encoded it as Kafka does.
"""

import json
import struct
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal

FOLDER = "common/message/"
UNKNOWN_TAGS = "_unknown_tags"
API_VERSIONS = 18
_NUMBERS = {
    "bool": struct.Struct(">?"),
    "int8": struct.Struct(">b"),
    "int16": struct.Struct(">h"),
    "uint16": struct.Struct(">H"),
    "int32": struct.Struct(">i"),
    "uint32": struct.Struct(">I"),
    "int64": struct.Struct(">q"),
    "float64": struct.Struct(">d"),
}
_BYTES = ("bytes", "records")
Message = dict[str, Any]
Direction = Literal["request", "response"]


class UnknownMessage(Exception):
    """There is no schema for an API or for a version of it."""


class UndecodableMessage(Exception):
    """A message does not have the form of its version."""


@dataclass(frozen=True)
class Versions:
    """A range of versions. It is empty if `last` is below `first`."""

    first: int
    last: int

    @classmethod
    def parse(cls, text: str | None) -> "Versions":
        """Parse the notations of the schemas: `3`, `1-4`, `2+`, `none`."""
        if not text or text == "none":
            return cls(0, -1)
        if text.endswith("+"):
            return cls(int(text[:-1]), 1 << 15)
        first, _, last = text.partition("-")
        return cls(int(first), int(last or first))

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last


@dataclass(frozen=True)
class Field:
    """A field of a message or struct."""

    name: str
    kind: str  # the element's type, without [] in front
    is_array: bool
    versions: Versions
    nullable: Versions
    tagged: Versions
    tag: int
    flexible: Versions
    entity: str  # what it names: transactionalId, groupId, topicName, ...; empty: nothing
    default: Any  # what Kafka takes where a sender leaves it out
    fields: tuple["Field", ...] = ()  # of a struct

    @property
    def is_struct(self) -> bool:
        """Whether its elements have fields."""
        return self.kind not in _NUMBERS and self.kind not in ("string", "uuid", *_BYTES)


@dataclass(frozen=True)
class MessageSchema:
    """The schema of one request, response or header."""

    name: str
    versions: Versions
    flexible: Versions
    fields: tuple[Field, ...]

    @cached_property
    def paths(self) -> Mapping[str, Field]:
        """All fields by path (`Topics.Partitions.PartitionIndex`), in the order of the message."""
        return _by_path(self.fields)

    def decode(self, data: memoryview, version: int, at: int = 0) -> tuple[Message, int]:
        """Return the message that begins at `at`, and where it ends. Raises `UndecodableMessage`."""
        self._require(version)
        reader = _MessageReader(data, version, at)
        try:
            message = reader.struct(self.fields, version in self.flexible)
        except (struct.error, IndexError, UnicodeDecodeError, RecursionError) as error:
            raise UndecodableMessage(f"{self.name}, version {version}, cannot be decoded: {error}") from error
        except UndecodableMessage as error:
            raise UndecodableMessage(f"{self.name}, version {version}, cannot be decoded: {error}") from error
        return message, reader.at

    def encode(self, message: Mapping[str, Any], version: int) -> bytes:
        """Encode a message. Raises `UnknownMessage`, and `ValueError` if a value does not fit its field."""
        self._require(version)
        parts: list[bytes | memoryview] = []
        try:
            _write_struct(parts, self.fields, message, version, version in self.flexible)
        except (struct.error, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{self.name}, version {version}, cannot be encoded: {error!r}") from error
        return b"".join(parts)

    def _require(self, version: int) -> None:
        if version not in self.versions:
            raise UnknownMessage(f"version {version} of {self.name} is not known")


def _by_path(fields: Iterable[Field], prefix: str = "") -> dict[str, Field]:
    by_path: dict[str, Field] = {}
    for each in fields:
        by_path |= {prefix + each.name: each} | _by_path(each.fields, f"{prefix}{each.name}.")
    return by_path


@dataclass(frozen=True)
class Api:
    """An API with its two messages."""

    key: int
    name: str  # as Kafka calls it: EndTxn
    request: MessageSchema
    response: MessageSchema

    def request_header_version(self, version: int) -> int:
        """Return the version of the header of a request."""
        return 2 if version in self.request.flexible else 1

    def response_header_version(self, version: int) -> int:
        """Return the version of the header of a response. That of ApiVersions never has tagged fields (KIP-511)."""
        return 1 if version in self.response.flexible and self.key != API_VERSIONS else 0


@dataclass
class Schemas:
    """All APIs of a Kafka release."""

    apis: Mapping[int, Api]
    request_header: MessageSchema
    response_header: MessageSchema
    kafka: str = ""  # the version of the release
    _by_name: Mapping[str, Api] = field(init=False)

    def __post_init__(self) -> None:
        self._by_name = {api.name: api for api in self.apis.values()}

    @classmethod
    def of_jar(cls, jar: Path) -> "Schemas":
        """Read the schemas of a `kafka-clients` jar. Raises `UnknownMessage` if it has none."""
        return _read(jar)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of all APIs, in the order of their keys."""
        return tuple(self.apis[key].name for key in sorted(self.apis))

    def api(self, key_or_name: int | str) -> Api:
        """Return an API. Raises `UnknownMessage`."""
        found = self.apis.get(key_or_name) if isinstance(key_or_name, int) else self._by_name.get(key_or_name)
        if found is None:
            raise UnknownMessage(f"there is no API {key_or_name}")
        return found


@cache
def _read(jar: Path) -> Schemas:
    requests: dict[int, MessageSchema] = {}
    responses: dict[int, MessageSchema] = {}
    headers: dict[str, MessageSchema] = {}
    with zipfile.ZipFile(jar) as archive:
        for name in archive.namelist():
            if name.startswith(FOLDER) and name.endswith(".json"):
                body = _without_comments(archive.read(name).decode())
                match body["type"]:
                    case "request":
                        requests[body["apiKey"]] = _schema(body)
                    case "response":
                        responses[body["apiKey"]] = _schema(body)
                    case "header":
                        headers[body["name"]] = _schema(body)
    if len(headers) != 2:
        raise UnknownMessage(f"{jar} has no message schemas in {FOLDER}")
    apis = {
        key: Api(key, request.name.removesuffix("Request"), request, responses[key])
        for key, request in requests.items()
        if key in responses
    }
    kafka = jar.stem.removeprefix("kafka-clients-")
    return Schemas(apis, headers["RequestHeader"], headers["ResponseHeader"], kafka)


def _without_comments(text: str) -> dict[str, Any]:
    """Parse JSON whose whole-line comments begin with //."""
    lines = (line for line in text.splitlines() if not line.lstrip().startswith("//"))
    body: dict[str, Any] = json.loads("\n".join(lines))
    return body


def _schema(body: Mapping[str, Any]) -> MessageSchema:
    common = {each["name"]: each["fields"] for each in body.get("commonStructs", ())}
    flexible = Versions.parse(body.get("flexibleVersions"))
    fields = _fields(body.get("fields", ()), common, flexible)
    return MessageSchema(body["name"], Versions.parse(body["validVersions"]), flexible, fields)


def _fields(
    bodies: Iterable[Mapping[str, Any]], common: Mapping[str, Any], flexible: Versions
) -> tuple[Field, ...]:
    fields = []
    for body in bodies:
        kind = body["type"].removeprefix("[]")
        own_flexible = Versions.parse(body["flexibleVersions"]) if "flexibleVersions" in body else flexible
        fields.append(
            Field(
                name=body["name"],
                kind=kind,
                is_array=body["type"].startswith("[]"),
                versions=Versions.parse(body["versions"]),
                nullable=Versions.parse(body.get("nullableVersions")),
                tagged=Versions.parse(body.get("taggedVersions")),
                tag=int(body.get("tag", -1)),  # a text in older versions of Kafka
                flexible=own_flexible,
                entity=body.get("entityType", ""),
                default=_default(body, kind),
                fields=_fields(body.get("fields") or common.get(kind, ()), common, flexible),
            )
        )
    return tuple(fields)


def _default(body: Mapping[str, Any], kind: str) -> Any:
    text = body.get("default")
    if text == "null" or body["type"].startswith("[]"):
        return None if text == "null" else []
    if kind == "bool":
        return str(text).lower() == "true"
    if kind in _NUMBERS:
        return float(text or 0) if kind == "float64" else int(str(text or 0), 0)
    if kind == "string":
        return text or ""
    return b"" if kind in _BYTES else bytes(16) if kind == "uuid" else None


class _MessageReader:
    """Reads values from a message, one after the other."""

    def __init__(self, data: memoryview, version: int, at: int = 0) -> None:
        self._data = data
        self._version = version
        self.at = at

    def struct(self, fields: Iterable[Field], flexible: bool) -> Message:
        message: Message = {}
        tagged: dict[int, Field] = {}
        for each in fields:
            if self._version not in each.versions:
                continue
            if self._version in each.tagged:
                tagged[each.tag] = each
            else:
                message[each.name] = self._value(each, flexible and self._version in each.flexible)
        if flexible:
            self._tagged_fields(message, tagged)
        return message

    def _tagged_fields(self, message: Message, known: Mapping[int, Field]) -> None:
        for _ in range(self._varint()):
            tag, size = self._varint(), self._varint()
            end = self.at + size
            if end > len(self._data):
                raise UndecodableMessage("a tagged field ends behind the message")
            if tag in known:
                message[known[tag].name] = self._value(known[tag], flexible=True)
                if self.at != end:
                    raise UndecodableMessage(f"the tagged field {known[tag].name} has another size")
            else:
                message.setdefault(UNKNOWN_TAGS, {})[tag] = bytes(self._take(size))

    def _value(self, field_: Field, flexible: bool) -> Any:
        if not field_.is_array:
            return self._element(field_, flexible)
        count = self._length(flexible, ">i")
        if count is None:
            return None
        if count > len(self._data) - self.at and self._least_size(field_):
            raise UndecodableMessage(f"{field_.name} has {count} elements, more than the message has bytes")
        return [self._element(field_, flexible, in_array=True) for _ in range(count)]

    def _least_size(self, field_: Field) -> bool:
        """Whether an element takes at least one byte."""
        return not field_.is_struct or any(self._version in each.versions for each in field_.fields)

    def _element(self, field_: Field, flexible: bool, in_array: bool = False) -> Any:
        kind = field_.kind
        if (number := _NUMBERS.get(kind)) is not None:
            (value,) = number.unpack_from(self._take(number.size))
            return value
        if kind == "uuid":
            return bytes(self._take(16))
        if kind == "string":
            size = self._length(flexible, ">h")
            return None if size is None else str(self._take(size), "utf-8")
        if kind in _BYTES:
            size = self._length(flexible, ">i")
            return None if size is None else self._take(size)
        if (
            not in_array
            and self._version in field_.nullable
            and _NUMBERS["int8"].unpack(self._take(1))[0] < 0
        ):
            return None
        return self.struct(field_.fields, flexible)

    def _length(self, flexible: bool, form: str) -> int | None:
        """Read the length of a string, bytes or array. None: the value is null."""
        if flexible:
            size = self._varint() - 1
        else:
            (size,) = struct.unpack(form, self._take(struct.calcsize(form)))
        if size < -1:
            raise UndecodableMessage(f"a length is {size}")
        return None if size == -1 else size

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 28:
                raise UndecodableMessage("a number has too many bytes")

    def _take(self, size: int) -> memoryview:
        if self.at + size > len(self._data):
            raise UndecodableMessage("it is too short")
        part = self._data[self.at : self.at + size]
        self.at += size
        return part


Parts = list[bytes | memoryview]


def _write_struct(
    parts: Parts, fields: Iterable[Field], message: Mapping[str, Any], version: int, flexible: bool
) -> None:
    tagged: dict[int, bytes] = dict(message.get(UNKNOWN_TAGS, {}))
    for each in fields:
        if version not in each.versions:
            continue
        if version in each.tagged:
            if each.name in message:
                own: Parts = []
                _write_value(own, each, message[each.name], version, flexible=True)
                tagged[each.tag] = b"".join(own)
        else:
            _write_value(parts, each, message[each.name], version, flexible and version in each.flexible)
    if flexible:
        parts.append(_varint(len(tagged)))
        for tag, content in sorted(tagged.items()):
            parts += [_varint(tag), _varint(len(content)), content]


def _write_value(parts: Parts, field_: Field, value: Any, version: int, flexible: bool) -> None:
    if not field_.is_array:
        _write_element(parts, field_, value, version, flexible)
        return
    _write_length(parts, None if value is None else len(value), flexible, ">i")
    for element in value or ():
        _write_element(parts, field_, element, version, flexible, in_array=True)


def _write_element(
    parts: Parts, field_: Field, value: Any, version: int, flexible: bool, in_array: bool = False
) -> None:
    kind = field_.kind
    if (number := _NUMBERS.get(kind)) is not None:
        parts.append(number.pack(value))
    elif kind == "uuid":
        parts.append(struct.pack("16s", value))
    elif kind == "string":
        content = None if value is None else value.encode()
        _write_length(parts, None if content is None else len(content), flexible, ">h")
        parts.append(content or b"")
    elif kind in _BYTES:
        _write_length(parts, None if value is None else len(value), flexible, ">i")
        parts.append(value or b"")
    else:
        if not in_array and version in field_.nullable:
            parts.append(b"\xff" if value is None else b"\x01")
        if value is not None:
            _write_struct(parts, field_.fields, value, version, flexible)


def _write_length(parts: Parts, size: int | None, flexible: bool, form: str) -> None:
    length = -1 if size is None else size
    parts.append(_varint(length + 1) if flexible else struct.pack(form, length))


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
