"""Replace the brokers' addresses in responses, so that a client dials the proxies instead.

A response is not decoded and encoded again. It is read up to its last address, and all other bytes stay as the broker
sent them. Addresses are in Metadata, FindCoordinator, DescribeCluster, and in the `NodeEndpoints` of Produce 10+ and
Fetch 16+, which name a new leader (KIP-951). In ApiVersions, versions that this module cannot read are removed
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
_ADDRESSES = 0  # the tag of NodeEndpoints
_FLEXIBLE = {METADATA: 9, FIND_COORDINATOR: 3, DESCRIBE_CLUSTER: 0, PRODUCE: 9, FETCH: 12}
"""By API: the first version whose responses have compact lengths and tagged fields (KIP-482)."""
_SINCE = {METADATA: 0, FIND_COORDINATOR: 0, DESCRIBE_CLUSTER: 0, PRODUCE: 10, FETCH: 16, API_VERSIONS: 0}
"""By API: the first version whose responses must be changed."""


class UnreadableResponse(Exception):
    """A response does not have the format of its version. It may have an address, so it must not be passed on."""


@dataclass
class AddressMap:
    """The address that a client gets for each broker."""

    by_broker: Mapping[int, tuple[str, int]]
    unknown_brokers: set[int] = field(default_factory=set)  # brokers in responses that have no proxy

    def of(self, broker: int) -> tuple[str, int]:
        """Return the address at which a client must dial a broker."""
        if broker not in self.by_broker:
            self.unknown_brokers.add(broker)
        return self.by_broker.get(broker, UNREACHABLE)


def contains_addresses(key: int, version: int) -> bool:
    """Return whether responses of this API and version may have addresses, or API versions, to change."""
    return key in _SINCE and version >= _SINCE[key]


def rewrite_response(key: int, version: int, answer: bytes, addresses: AddressMap) -> bytes:
    """Replace the addresses in a response. Raises `UnreadableResponse`.

    `answer` has header and body, without the length in front.
    """
    known = newest_version(key)
    if key != API_VERSIONS and (known is None or version > known):
        raise UnreadableResponse(f"version {version} of API {key} is not known")
    try:
        return _WALKS[key](version, answer, addresses)
    except (struct.error, IndexError, ValueError) as error:
        raise UnreadableResponse(
            f"a response of API {key}, version {version}, cannot be read: {error}"
        ) from error


class _Walk:
    """Reads a response field by field, and collects the replacements of some of its bytes."""

    def __init__(self, answer: bytes, flexible: bool, at: int = 0) -> None:
        self._answer = answer
        self._flexible = flexible
        self.at = at
        self._edits: list[tuple[int, int, bytes]] = []

    def skip(self, size: int) -> None:
        """Skip some bytes."""
        self.at += size
        if size < 0 or self.at > len(self._answer):
            raise ValueError("it is too short")

    def number(self, form: str) -> int:
        """Read an integer of a fixed size."""
        (value,) = struct.unpack_from(form, self._answer, self.at)
        self.skip(struct.calcsize(form))
        return int(value)

    def varint(self) -> int:
        """Read an unsigned varint."""
        value = shift = 0
        while True:
            byte = self._answer[self.at]
            self.at += 1
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

    def tags(self, walks: Mapping[int, Callable[["_Walk"], None]] | None = None) -> None:
        """Skip the tagged fields. Those in `walks` are read by the function there, which may change them."""
        if not self._flexible:
            return
        for _ in range(self.varint()):
            tag, before = self.varint(), self.at
            size = self.varint()
            start = self.at
            self.skip(size)
            if walks and tag in walks:
                inner = _Walk(self._answer[start : self.at], self._flexible)
                walks[tag](inner)
                changed = inner.result()
                self._replace(before, self.at, _varint(len(changed)) + changed)

    def address(self, addresses: AddressMap) -> None:
        """Read a broker's id, host and port, and replace host and port."""
        broker, start = self.number(">i"), self.at
        self.text()
        self.skip(4)
        if broker >= 0:  # -1: there is no broker
            host, port = addresses.of(broker)
            self._replace(start, self.at, self._encode_string(host) + struct.pack(">i", port))

    def result(self) -> bytes:
        """Return the response with all replacements."""
        parts, done = [], 0
        for start, end, replacement in self._edits:
            parts += [self._answer[done:start], replacement]
            done = end
        return b"".join([*parts, self._answer[done:]])

    def versions(self) -> None:
        """Read an array of APIs with their versions, and keep only versions that clients may use."""
        start, apis = self.at, []
        for _ in range(self.count()):
            key, least, most = self.number(">h"), self.number(">h"), self.number(">h")
            tagged = self.at
            self.tags()
            known = newest_version(key)
            if known is not None and known >= least:
                versions = struct.pack(">hhh", key, least, min(most, known))
                apis.append(versions + self._answer[tagged : self.at])
        length = _varint(len(apis) + 1) if self._flexible else struct.pack(">i", len(apis))
        self._replace(start, self.at, length + b"".join(apis))

    def _replace(self, start: int, end: int, replacement: bytes) -> None:
        if self._answer[start:end] != replacement:
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


def _walk_body(key: int, version: int, answer: bytes) -> _Walk:
    walk = _Walk(answer, version >= _FLEXIBLE[key])
    walk.header()
    return walk


def _metadata(version: int, answer: bytes, addresses: AddressMap) -> bytes:
    """Fields: `throttle_time_ms` (3+), then the brokers."""
    walk = _walk_body(METADATA, version, answer)
    walk.skip(4 if version >= 3 else 0)
    for _ in range(walk.count()):
        walk.address(addresses)
        if version >= 1:
            walk.text()  # rack
        walk.tags()
    return walk.result()


def _find_coordinator(version: int, answer: bytes, addresses: AddressMap) -> bytes:
    """Fields: one coordinator, or an array of them from version 4 on (KIP-699)."""
    walk = _walk_body(FIND_COORDINATOR, version, answer)
    walk.skip(4 if version >= 1 else 0)
    if version < 4:
        walk.skip(2)
        if version >= 1:
            walk.text()  # error message
        walk.address(addresses)
        return walk.result()
    for _ in range(walk.count()):
        walk.text()  # key
        walk.address(addresses)
        walk.skip(2)
        walk.text()  # error message
        walk.tags()
    return walk.result()


def _describe_cluster(version: int, answer: bytes, addresses: AddressMap) -> bytes:
    """Fields: error, endpoint type (1+), cluster and controller ids, then the brokers."""
    walk = _walk_body(DESCRIBE_CLUSTER, version, answer)
    walk.skip(6)
    walk.text()  # error message
    walk.skip(1 if version >= 1 else 0)
    walk.text()  # cluster id
    walk.skip(4)
    for _ in range(walk.count()):
        walk.address(addresses)
        walk.text()  # rack
        walk.skip(1 if version >= 2 else 0)
        walk.tags()
    return walk.result()


def _endpoints(addresses: AddressMap) -> Mapping[int, Callable[[_Walk], None]]:
    """Return the function that reads the tagged field NodeEndpoints."""

    def walk_endpoints(walk: _Walk) -> None:
        for _ in range(walk.count()):
            walk.address(addresses)
            walk.text()  # rack
            walk.tags()

    return {_ADDRESSES: walk_endpoints}


def _produce(version: int, answer: bytes, addresses: AddressMap) -> bytes:
    """The endpoints come after all partitions."""
    walk = _walk_body(PRODUCE, version, answer)
    for _ in range(walk.count()):
        walk.skip(16) if version >= 13 else walk.text()  # the topic
        for _ in range(walk.count()):
            walk.skip(4 + 2 + 8 + 8 + 8)
            for _ in range(walk.count()):  # errors of single records
                walk.skip(4)
                walk.text()
                walk.tags()
            walk.text()  # error message
            walk.tags()
        walk.tags()
    walk.skip(4)
    walk.tags(_endpoints(addresses))
    return walk.result()


def _fetch(version: int, answer: bytes, addresses: AddressMap) -> bytes:
    """The endpoints come after all partitions. Records are skipped by their length."""
    walk = _walk_body(FETCH, version, answer)
    walk.skip(4 + 2 + 4)
    for _ in range(walk.count()):
        walk.skip(16)
        for _ in range(walk.count()):
            walk.skip(4 + 2 + 8 + 8 + 8)
            for _ in range(walk.count()):  # aborted transactions
                walk.skip(16)
                walk.tags()
            walk.skip(4)
            walk.text()  # records: a length and bytes
            walk.tags()
        walk.tags()
    walk.tags(_endpoints(addresses))
    return walk.result()


def _api_versions(version: int, answer: bytes, addresses: AddressMap) -> bytes:
    """Its header never has tagged fields. If the broker does not support the version, it responds in version 0."""
    (error,) = struct.unpack_from(">h", answer, 4)
    walk = _Walk(answer, version >= 3 and error != UNSUPPORTED_VERSION, at=6)
    walk.versions()
    return walk.result()


_WALKS: Mapping[int, Callable[[int, bytes, AddressMap], bytes]] = {
    PRODUCE: _produce,
    FETCH: _fetch,
    METADATA: _metadata,
    FIND_COORDINATOR: _find_coordinator,
    API_VERSIONS: _api_versions,
    DESCRIBE_CLUSTER: _describe_cluster,
}
