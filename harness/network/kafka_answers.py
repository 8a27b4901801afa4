"""The addresses in a broker's answers, replaced by others: what a client is told, it dials.

An answer is not decoded and encoded again. It is walked as far as its addresses stand; all else of it stays as the
broker sent it, byte for byte. Walked are Metadata, FindCoordinator, DescribeCluster, and the `NodeEndpoints` that
Produce 10+ and Fetch 16+ have where a leader has moved (KIP-951). Of ApiVersions those versions are left out that
this cannot read (`harness.network.kafka_apis`).
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
"""The address of a broker that has none here: nobody listens there."""
UNSUPPORTED_VERSION = 35
_ADDRESSES = 0  # the tag of NodeEndpoints
_FLEXIBLE = {METADATA: 9, FIND_COORDINATOR: 3, DESCRIBE_CLUSTER: 0, PRODUCE: 9, FETCH: 12}
"""Since which version an API's answers have compact lengths and tagged fields (KIP-482)."""
_SINCE = {METADATA: 0, FIND_COORDINATOR: 0, DESCRIBE_CLUSTER: 0, PRODUCE: 10, FETCH: 16, API_VERSIONS: 0}
"""Since which version an API's answers hold what is to be rewritten."""


class UnreadableResponse(Exception):
    """An answer is not as its version says; it may hold an address, and must not be passed on."""


@dataclass
class AddressMap:
    """What each broker is to be called."""

    by_broker: Mapping[int, tuple[str, int]]
    unknown_brokers: set[int] = field(
        default_factory=set
    )  # brokers that were named, and have no address here

    def of(self, broker: int) -> tuple[str, int]:
        """Where a client is to dial it."""
        if broker not in self.by_broker:
            self.unknown_brokers.add(broker)
        return self.by_broker.get(broker, UNREACHABLE)


def contains_addresses(key: int, version: int) -> bool:
    """Whether the answers to a request of that API and version have to be rewritten."""
    return key in _SINCE and version >= _SINCE[key]


def rewrite_response(key: int, version: int, answer: bytes, addresses: AddressMap) -> bytes:
    """An answer, header and body without its length, with other addresses. Raises `UnreadableResponse`."""
    known = newest_version(key)
    if key != API_VERSIONS and (known is None or version > known):
        raise UnreadableResponse(f"version {version} of API {key} is not known here")
    try:
        return _WALKS[key](version, answer, addresses)
    except (struct.error, IndexError, ValueError) as error:
        raise UnreadableResponse(
            f"an answer of API {key}, version {version}, cannot be read: {error}"
        ) from error


class _Walk:
    """Goes through an answer, and notes what is to stand in the place of some of its bytes."""

    def __init__(self, answer: bytes, flexible: bool, at: int = 0) -> None:
        self._answer = answer
        self._flexible = flexible
        self.at = at
        self._edits: list[tuple[int, int, bytes]] = []

    def skip(self, size: int) -> None:
        """Past some bytes."""
        self.at += size
        if size < 0 or self.at > len(self._answer):
            raise ValueError("it ends too early")

    def number(self, form: str) -> int:
        """A whole number of a fixed size."""
        (value,) = struct.unpack_from(form, self._answer, self.at)
        self.skip(struct.calcsize(form))
        return int(value)

    def varint(self) -> int:
        """An unsigned number of a size of its own."""
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
        """How many elements an array has; none, where it is null."""
        return max(0, self.varint() - 1 if self._flexible else self.number(">i"))

    def text(self) -> None:
        """Past a string, or null."""
        self.skip(max(0, self.varint() - 1 if self._flexible else self.number(">h")))

    def header(self) -> None:
        """Past the answer's header."""
        self.skip(4)
        self.tags()

    def tags(self, walks: Mapping[int, Callable[["_Walk"], None]] | None = None) -> None:
        """Past the tagged fields, or through those that a walk is given for."""
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
        """A broker's id, host and port."""
        broker, start = self.number(">i"), self.at
        self.text()
        self.skip(4)
        if broker >= 0:  # else there is none
            host, port = addresses.of(broker)
            self._replace(start, self.at, self._written(host) + struct.pack(">i", port))

    def result(self) -> bytes:
        """The answer as it is to be."""
        parts, done = [], 0
        for start, end, instead in self._edits:
            parts += [self._answer[done:start], instead]
            done = end
        return b"".join([*parts, self._answer[done:]])

    def versions(self) -> None:
        """Of an array of APIs with their versions, those that may be spoken."""
        start, kept = self.at, []
        for _ in range(self.count()):
            key, least, most = self.number(">h"), self.number(">h"), self.number(">h")
            tagged = self.at
            self.tags()
            known = newest_version(key)
            if known is not None and known >= least:
                spoken = struct.pack(">hhh", key, least, min(most, known))
                kept.append(spoken + self._answer[tagged : self.at])
        length = _varint(len(kept) + 1) if self._flexible else struct.pack(">i", len(kept))
        self._replace(start, self.at, length + b"".join(kept))

    def _replace(self, start: int, end: int, instead: bytes) -> None:
        if self._answer[start:end] != instead:
            self._edits.append((start, end, instead))

    def _written(self, text: str) -> bytes:
        told = text.encode()
        return (_varint(len(told) + 1) if self._flexible else struct.pack(">h", len(told))) + told


def _varint(value: int) -> bytes:
    told = bytearray()
    while value >= 0x80:
        told.append(value & 0x7F | 0x80)
        value >>= 7
    told.append(value)
    return bytes(told)


def _begun(key: int, version: int, answer: bytes) -> _Walk:
    walk = _Walk(answer, version >= _FLEXIBLE[key])
    walk.header()
    return walk


def _metadata(version: int, answer: bytes, addresses: AddressMap) -> bytes:
    """`throttle_time_ms` (3+), then the brokers."""
    walk = _begun(METADATA, version, answer)
    walk.skip(4 if version >= 3 else 0)
    for _ in range(walk.count()):
        walk.address(addresses)
        if version >= 1:
            walk.text()  # rack
        walk.tags()
    return walk.result()


def _find_coordinator(version: int, answer: bytes, addresses: AddressMap) -> bytes:
    """One coordinator, or from version 4 on an array of them (KIP-699)."""
    walk = _begun(FIND_COORDINATOR, version, answer)
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
    """The brokers after ids, and the kind of endpoint (1+)."""
    walk = _begun(DESCRIBE_CLUSTER, version, answer)
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
    """How the tagged field NodeEndpoints is walked."""

    def walk_them(walk: _Walk) -> None:
        for _ in range(walk.count()):
            walk.address(addresses)
            walk.text()  # rack
            walk.tags()

    return {_ADDRESSES: walk_them}


def _produce(version: int, answer: bytes, addresses: AddressMap) -> bytes:
    """The endpoints stand behind all partitions."""
    walk = _begun(PRODUCE, version, answer)
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
    """The same; records are skipped by their length."""
    walk = _begun(FETCH, version, answer)
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
    """Its header has no tags, in any version, and a version that the broker does not speak is answered in version 0."""
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
