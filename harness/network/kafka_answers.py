"""Replace the brokers' addresses in responses, so that a client dials the proxies instead.

A response is not decoded and encoded again. It is read up to its last address. All bytes except addresses stay as the
broker sent them. Addresses are in Metadata, FindCoordinator, DescribeCluster, and in the `NodeEndpoints` of Produce 10+
and Fetch 16+, which name a new leader (KIP-951). In ApiVersions, versions that this module cannot read are removed
(`harness.network.kafka_apis`).
"""

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from harness.network.kafka_apis import (
    API_VERSIONS,
    DESCRIBE_CLUSTER,
    FETCH,
    FIND_COORDINATOR,
    METADATA,
    PRODUCE,
    newest_version,
)

HOST = "127.0.0.1"
UNREACHABLE = (HOST, 1)
"""The address for a broker that has no proxy. Nothing listens there."""
UNSUPPORTED_VERSION = 35
_NODE_ENDPOINTS_TAG = 0  # the tag of NodeEndpoints
_FIRST_FLEXIBLE_VERSION = {METADATA: 9, FIND_COORDINATOR: 3, DESCRIBE_CLUSTER: 0, PRODUCE: 9, FETCH: 12}
"""By API: the first version whose responses have compact lengths and tagged fields (KIP-482)."""
_FIRST_CHANGED_VERSION = {
    METADATA: 0,
    FIND_COORDINATOR: 0,
    DESCRIBE_CLUSTER: 0,
    PRODUCE: 10,
    FETCH: 16,
    API_VERSIONS: 0,
}
"""By API: the first version whose responses must be changed."""


class UnreadableResponse(Exception):
    """A response does not have the format of its version. It may have an address, so a client must not get it."""


@dataclass
class AddressMap:
    """The addresses that replace the brokers' addresses."""

    by_broker: Mapping[int, tuple[str, int]]
    unknown_brokers: set[int] = field(default_factory=set)  # brokers without a proxy that were in responses

    def of(self, broker: int) -> tuple[str, int]:
        """Return the address at which a client must dial a broker."""
        if broker not in self.by_broker:
            self.unknown_brokers.add(broker)
        return self.by_broker.get(broker, UNREACHABLE)


def contains_addresses(key: int, version: int) -> bool:
    """Return whether responses of this API and version may have addresses or API versions that must be changed."""
    return key in _FIRST_CHANGED_VERSION and version >= _FIRST_CHANGED_VERSION[key]


def rewrite_response(key: int, version: int, response: bytes, addresses: AddressMap) -> bytes:
    """Replace the addresses in a response. Raises `UnreadableResponse`.

    `response` is the header and the body, without the length in front.
    """
    newest = newest_version(key)
    if key != API_VERSIONS and (newest is None or version > newest):
        raise UnreadableResponse(f"version {version} of API {key} is not known")
    try:
        return _REWRITERS[key](version, response, addresses)
    except (struct.error, IndexError, ValueError) as error:
        raise UnreadableResponse(
            f"a response of API {key}, version {version}, cannot be read: {error}"
        ) from error


class _ResponseEditor:
    """Reads a response field by field, and collects the replacements of some of its bytes."""

    def __init__(self, response: bytes, flexible: bool, position: int = 0) -> None:
        self._response = response
        self._flexible = flexible
        self.position = position
        self._edits: list[tuple[int, int, bytes]] = []

    def skip(self, size: int) -> None:
        """Skip some bytes."""
        self.position += size
        if size < 0 or self.position > len(self._response):
            raise ValueError("the response is too short")

    def number(self, form: str) -> int:
        """Read an integer of a fixed size."""
        (value,) = struct.unpack_from(form, self._response, self.position)
        self.skip(struct.calcsize(form))
        return int(value)

    def varint(self) -> int:
        """Read an unsigned varint."""
        value = shift = 0
        while True:
            byte = self._response[self.position]
            self.position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 28:
                raise ValueError("a number has too many bytes")

    def count(self) -> int:
        """Read the length of an array. 0 if it is null."""
        return max(0, self.varint() - 1 if self._flexible else self.number(">i"))

    def text(self) -> None:
        """Skip a string or null."""
        self.skip(max(0, self.varint() - 1 if self._flexible else self.number(">h")))

    def header(self) -> None:
        """Skip the response header."""
        self.skip(4)
        self.tags()

    def tags(self, editors: Mapping[int, Callable[["_ResponseEditor"], None]] | None = None) -> None:
        """Skip the tagged fields. For a tag in `editors`, call its function, which may change the field."""
        if not self._flexible:
            return
        for _ in range(self.varint()):
            tag, size_position = self.varint(), self.position
            size = self.varint()
            start = self.position
            self.skip(size)
            if editors and tag in editors:
                field_editor = _ResponseEditor(self._response[start : self.position], self._flexible)
                editors[tag](field_editor)
                new_field = field_editor.result()
                self._replace(size_position, self.position, _varint(len(new_field)) + new_field)

    def address(self, addresses: AddressMap) -> None:
        """Read a broker's id, host and port, and replace host and port."""
        broker, start = self.number(">i"), self.position
        self.text()
        self.skip(4)
        if broker >= 0:  # -1: there is no broker
            host, port = addresses.of(broker)
            self._replace(start, self.position, self._encode_string(host) + struct.pack(">i", port))

    def result(self) -> bytes:
        """Return the response with all replacements."""
        parts, copied_to = [], 0
        for start, end, replacement in self._edits:
            parts += [self._response[copied_to:start], replacement]
            copied_to = end
        return b"".join([*parts, self._response[copied_to:]])

    def versions(self) -> None:
        """Read an array of APIs with their versions, and keep only versions that clients may use."""
        start, apis = self.position, []
        for _ in range(self.count()):
            key, oldest, newest = self.number(">h"), self.number(">h"), self.number(">h")
            tags_position = self.position
            self.tags()
            newest_known = newest_version(key)
            if newest_known is not None and newest_known >= oldest:
                versions = struct.pack(">hhh", key, oldest, min(newest, newest_known))
                apis.append(versions + self._response[tags_position : self.position])
        length = _varint(len(apis) + 1) if self._flexible else struct.pack(">i", len(apis))
        self._replace(start, self.position, length + b"".join(apis))

    def _replace(self, start: int, end: int, replacement: bytes) -> None:
        if self._response[start:end] != replacement:
            self._edits.append((start, end, replacement))

    def _encode_string(self, text: str) -> bytes:
        content = text.encode()
        return (_varint(len(content) + 1) if self._flexible else struct.pack(">h", len(content))) + content


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _skip_header(key: int, version: int, response: bytes) -> _ResponseEditor:
    editor = _ResponseEditor(response, version >= _FIRST_FLEXIBLE_VERSION[key])
    editor.header()
    return editor


def _metadata(version: int, response: bytes, addresses: AddressMap) -> bytes:
    """Fields: `throttle_time_ms` (3+), then the brokers."""
    editor = _skip_header(METADATA, version, response)
    editor.skip(4 if version >= 3 else 0)
    for _ in range(editor.count()):
        editor.address(addresses)
        if version >= 1:
            editor.text()  # rack
        editor.tags()
    return editor.result()


def _find_coordinator(version: int, response: bytes, addresses: AddressMap) -> bytes:
    """Fields: one coordinator, or an array of them from version 4 on (KIP-699)."""
    editor = _skip_header(FIND_COORDINATOR, version, response)
    editor.skip(4 if version >= 1 else 0)
    if version < 4:
        editor.skip(2)
        if version >= 1:
            editor.text()  # error message
        editor.address(addresses)
        return editor.result()
    for _ in range(editor.count()):
        editor.text()  # key
        editor.address(addresses)
        editor.skip(2)
        editor.text()  # error message
        editor.tags()
    return editor.result()


def _describe_cluster(version: int, response: bytes, addresses: AddressMap) -> bytes:
    """Fields: error, endpoint type (1+), cluster and controller ids, then the brokers."""
    editor = _skip_header(DESCRIBE_CLUSTER, version, response)
    editor.skip(6)
    editor.text()  # error message
    editor.skip(1 if version >= 1 else 0)
    editor.text()  # cluster id
    editor.skip(4)
    for _ in range(editor.count()):
        editor.address(addresses)
        editor.text()  # rack
        editor.skip(1 if version >= 2 else 0)
        editor.tags()
    return editor.result()


def _endpoints(addresses: AddressMap) -> Mapping[int, Callable[[_ResponseEditor], None]]:
    """Return the function that reads the tagged field NodeEndpoints."""

    def edit_endpoints(editor: _ResponseEditor) -> None:
        for _ in range(editor.count()):
            editor.address(addresses)
            editor.text()  # rack
            editor.tags()

    return {_NODE_ENDPOINTS_TAG: edit_endpoints}


def _produce(version: int, response: bytes, addresses: AddressMap) -> bytes:
    """The endpoints come after all partitions."""
    editor = _skip_header(PRODUCE, version, response)
    for _ in range(editor.count()):
        editor.skip(16) if version >= 13 else editor.text()  # the topic
        for _ in range(editor.count()):
            editor.skip(4 + 2 + 8 + 8 + 8)
            for _ in range(editor.count()):  # errors of single records
                editor.skip(4)
                editor.text()
                editor.tags()
            editor.text()  # error message
            editor.tags()
        editor.tags()
    editor.skip(4)
    editor.tags(_endpoints(addresses))
    return editor.result()


def _fetch(version: int, response: bytes, addresses: AddressMap) -> bytes:
    """The endpoints come after all partitions. Records are skipped by their length."""
    editor = _skip_header(FETCH, version, response)
    editor.skip(4 + 2 + 4)
    for _ in range(editor.count()):
        editor.skip(16)
        for _ in range(editor.count()):
            editor.skip(4 + 2 + 8 + 8 + 8)
            for _ in range(editor.count()):  # aborted transactions
                editor.skip(16)
                editor.tags()
            editor.skip(4)
            editor.text()  # records: a length and bytes
            editor.tags()
        editor.tags()
    editor.tags(_endpoints(addresses))
    return editor.result()


def _api_versions(version: int, response: bytes, addresses: AddressMap) -> bytes:
    """Its header never has tagged fields. If the broker does not support the version, it responds in version 0."""
    (error,) = struct.unpack_from(">h", response, 4)
    editor = _ResponseEditor(response, version >= 3 and error != UNSUPPORTED_VERSION, position=6)
    editor.versions()
    return editor.result()


_REWRITERS: Mapping[int, Callable[[int, bytes, AddressMap], bytes]] = {
    PRODUCE: _produce,
    FETCH: _fetch,
    METADATA: _metadata,
    FIND_COORDINATOR: _find_coordinator,
    API_VERSIONS: _api_versions,
    DESCRIBE_CLUSTER: _describe_cluster,
}
