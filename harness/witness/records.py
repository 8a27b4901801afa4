"""Decode the records of a batch, and the type of a marker.

kafka-python parses the records, but needs a library for each compression except gzip. So pyarrow decompresses first: it
has all compressions. A payload is used only if its CRC is correct.
"""

import struct
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple, cast

import pyarrow as pa
from kafka.errors import KafkaError
from kafka.record.default_records import DefaultRecordBatch

from harness.witness.internal_topics import UndecodableField
from harness.witness.segments import HEADER, LogBatch

_MARKERS = {0: "abort", 1: "commit"}  # other control records (leader change, ...) are not markers
_KEY = struct.Struct(">hh")  # version, type
_VALUE = struct.Struct(">hi")  # version, coordinator epoch
_STREAMED = {1: "gzip", 3: "lz4", 4: "zstd"}
_SNAPPY = 2
_CODEC = 0x07  # bits of the attributes
_ONE_RECORD = (0, 0, 0, 2, 0, 0, 0, 0, 0, -1, -1, -1, 1)  # a header for a payload without one
_XERIAL = b"\x82SNAPPY\x00"
_XERIAL_HEADER = 16  # the magic, and two int32 versions


class LogRecord(NamedTuple):
    """A record, without its headers."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


class LogMarker(NamedTuple):
    """The marker that ends a transaction in a partition: its type, and the epoch of the coordinator that wrote it."""

    type: str
    coordinator_epoch: int


def read_records(batch: LogBatch) -> Iterator[LogRecord]:
    """Decode the records of a batch. Raises `UndecodableField`."""
    if not batch.intact():
        raise UndecodableField("the CRC is wrong")
    plain = batch._replace(attributes=batch.attributes & ~_CODEC)
    try:
        yield from _parse(HEADER.pack(*plain[: len(_ONE_RECORD)]) + _decompress(batch))
    except (KafkaError, pa.ArrowException, OSError, struct.error) as error:
        raise UndecodableField(str(error)) from error


def read_marker(batch: LogBatch) -> LogMarker | None:
    """Decode the marker of a control batch. None if it is another control record. Raises `UndecodableField`."""
    if not batch.intact():
        raise UndecodableField("the CRC is wrong")
    return _marker_in(batch.payload())


@lru_cache(maxsize=1024)
def _marker_in(payload: bytes) -> LogMarker | None:
    """Decode a marker. It is cached, because all markers of one coordinator epoch have the same payload."""
    try:
        records = list(_parse(HEADER.pack(*_ONE_RECORD) + payload))
    except (KafkaError, struct.error) as error:
        raise UndecodableField(str(error)) from error
    for record in records:
        if record.key is None or len(record.key) < _KEY.size:
            raise UndecodableField("a control record without a type")
        marker = _MARKERS.get(_KEY.unpack_from(record.key)[1])
        if marker is None:
            return None
        if record.value is None or len(record.value) < _VALUE.size:
            raise UndecodableField("a marker without a coordinator epoch")
        return LogMarker(marker, _VALUE.unpack_from(record.value)[1])
    raise UndecodableField("a control batch without a record")


def _parse(plain: bytes) -> Iterator[LogRecord]:
    for record in DefaultRecordBatch(plain):
        yield LogRecord(record.offset, record.timestamp, record.key, record.value)


def _decompress(batch: LogBatch) -> bytes:
    payload = batch.payload()
    if batch.codec == 0:
        return payload
    if batch.codec in _STREAMED:
        with pa.CompressedInputStream(pa.BufferReader(payload), _STREAMED[batch.codec]) as stream:
            return cast(bytes, stream.read())
    if batch.codec == _SNAPPY:
        return b"".join(_snappy_blocks(payload))
    raise UndecodableField(f"compression {batch.codec} is not known")


def _snappy_blocks(payload: bytes) -> Iterator[bytes]:
    """Decompress Snappy in Java's framing (each block after its int32 length), or a single block without framing."""
    if not payload.startswith(_XERIAL):
        yield _snappy(payload)
        return
    position = _XERIAL_HEADER
    while position < len(payload):
        (length,) = struct.unpack_from(">i", payload, position)
        yield _snappy(payload[position + 4 : position + 4 + length])
        position += 4 + length


def _snappy(block: bytes) -> bytes:
    size = shift = 0
    for byte in block:  # the decompressed size is in front, as a varint
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    return cast(bytes, pa.decompress(block, decompressed_size=size, codec="snappy", asbytes=True))
