"""Encode record batches, and write them as a broker does."""

import struct
from collections.abc import Sequence
from pathlib import Path

from kafka.record.util import calc_crc32c, encode_varint

Pair = tuple[bytes | None, bytes | None]


def record(delta: int, key: bytes | None, value: bytes | None) -> bytes:
    body = bytearray([0])
    encode_varint(0, body.append)
    encode_varint(delta, body.append)
    for part in (key, value):
        encode_varint(-1 if part is None else len(part), body.append)
        body += part or b""
    encode_varint(0, body.append)
    length = bytearray()
    encode_varint(len(body), length.append)
    return bytes(length + body)


def batch(
    base: int,
    pairs: Sequence[Pair] = ((b"k", b"v"),),
    *,
    pid: int = -1,
    epoch: int = -1,
    seq: int = -1,
    txn: bool = False,
    control: bool = False,
    leader_epoch: int = 0,
    codec: int = 0,
    time_ms: int = 1000,
    payload: bytes | None = None,
) -> bytes:
    if payload is None:
        payload = b"".join(record(n, key, value) for n, (key, value) in enumerate(pairs))
    attributes = codec | (0x10 if txn else 0) | (0x20 if control else 0)
    times = (time_ms, time_ms)
    after_crc = (
        struct.pack(">hiqqqhii", attributes, len(pairs) - 1, *times, pid, epoch, seq, len(pairs)) + payload
    )
    return (
        struct.pack(">qiibI", base, 9 + len(after_crc), leader_epoch, 2, calc_crc32c(after_crc)) + after_crc
    )


def marker(base: int, type_: int, *, pid: int, epoch: int = 0, coordinator_epoch: int = 5) -> bytes:
    pair = (struct.pack(">hh", 0, type_), struct.pack(">hi", 0, coordinator_epoch))
    return batch(base, [pair], pid=pid, epoch=epoch, txn=True, control=True)


ABORT, COMMIT, LEADER_CHANGE = 0, 1, 2


def write_log(data_dir: Path, name: str, *batches: bytes, base: int = 0) -> Path:
    folder = data_dir / name
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{base:020}.log"
    path.write_bytes(b"".join(batches))
    return path


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def compact(value: str) -> bytes:
    return bytes([len(value) + 1]) + value.encode()


def commit_key(group: str, topic: str, partition: int, version: int = 1) -> bytes:
    return struct.pack(">h", version) + text(group) + text(topic) + struct.pack(">i", partition)


def commit_value(version: int, offset: int, metadata: str) -> bytes:
    """The value of an offset commit with the time 77 ms."""
    head = struct.pack(">hq", version, offset) + (struct.pack(">i", 3) if version >= 3 else b"")
    words = compact(metadata) if version >= 4 else text(metadata)
    tail = {1: struct.pack(">q", 99), 4: b"\x01\x00\x02hi"}.get(version, b"")  # expiry; a tagged field
    return head + words + struct.pack(">q", 77) + tail


def state_key(transactional_id: str) -> bytes:
    return struct.pack(">h", 0) + text(transactional_id)


def state_value(
    version: int, status: int, topic: str | None = "out", partitions: Sequence[int] = (0, 2)
) -> bytes:
    """The state of a transaction of producer 9 in epoch 4: time-out 60 s, started at 10 ms, updated at 20 ms."""
    flexible = version >= 1
    numbers = struct.pack(f">{len(partitions)}i", *partitions)
    if topic is None:
        topics = b"\x00" if flexible else struct.pack(">i", -1)
    elif flexible:
        topics = b"\x02" + compact(topic) + bytes([len(partitions) + 1]) + numbers + b"\x00"
    else:
        topics = struct.pack(">i", 1) + text(topic) + struct.pack(">i", len(partitions)) + numbers
    tags = b"\x01\x02\x02\x00\x02" if flexible else b""  # the client's transaction version
    return struct.pack(">hqhib", version, 9, 4, 60_000, status) + topics + struct.pack(">qq", 20, 10) + tags
