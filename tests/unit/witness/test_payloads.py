"""Records are read under every compression, and only from batches whose CRC is correct."""

import struct
from pathlib import Path

import pyarrow as pa
import pytest
from witness_logs import ABORT, COMMIT, LEADER_CHANGE, batch, marker, record, write_log

from harness.witness.internal_topics import UndecodableField
from harness.witness.records import LogMarker, LogRecord, read_marker, read_records
from harness.witness.segments import ReplicaDamage, read_log

PLAIN = record(0, b"key", b"value" * 9)


def records_of_first(tmp_path: Path, data: bytes) -> list[LogRecord]:
    path = write_log(tmp_path, "t-0", data, batch(100))
    return next(list(read_records(b)) for b in read_log(path.parent, ReplicaDamage()))


def marker_in(tmp_path: Path, data: bytes) -> LogMarker | None:
    path = write_log(tmp_path, "t-0", data)
    return next(read_marker(b) for b in read_log(path.parent, ReplicaDamage()))


def compressed(codec: str) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as stream:
        stream.write(PLAIN)
    return sink.getvalue().to_pybytes()


def xerial() -> bytes:
    blocks = [pa.compress(part, codec="snappy", asbytes=True) for part in (PLAIN[:20], PLAIN[20:])]
    framed = b"".join(struct.pack(">i", len(block)) + block for block in blocks)
    return b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + framed


@pytest.mark.parametrize(
    ("codec", "payload"),
    [
        (0, PLAIN),
        (1, compressed("gzip")),
        (2, xerial()),
        (2, pa.compress(PLAIN, codec="snappy", asbytes=True)),
        (3, compressed("lz4")),
        (4, compressed("zstd")),
    ],
)
def test_a_record_is_read_under_every_compression(tmp_path: Path, codec: int, payload: bytes) -> None:
    assert records_of_first(tmp_path, batch(7, codec=codec, payload=payload)) == [
        LogRecord(7, 1000, b"key", b"value" * 9)
    ]


def test_a_payload_with_a_wrong_crc_is_not_used(tmp_path: Path) -> None:
    damaged = bytearray(batch(7))
    damaged[-3] ^= 1
    with pytest.raises(UndecodableField, match="CRC"):
        records_of_first(tmp_path, bytes(damaged))


@pytest.mark.parametrize("codec", [1, 2, 3, 4, 7])
def test_a_payload_that_cannot_be_decompressed_is_an_error(tmp_path: Path, codec: int) -> None:
    with pytest.raises(UndecodableField):
        records_of_first(tmp_path, batch(7, codec=codec, payload=b"\x82SNAPPY\x00 rubbish"))


def test_a_marker_has_a_type_and_its_coordinators_epoch(tmp_path: Path) -> None:
    assert marker_in(tmp_path, marker(0, COMMIT, pid=9)) == LogMarker("commit", 5)
    assert marker_in(tmp_path, marker(0, ABORT, pid=9, coordinator_epoch=6)) == LogMarker("abort", 6)


def test_a_leader_change_is_no_marker(tmp_path: Path) -> None:
    assert marker_in(tmp_path, marker(0, LEADER_CHANGE, pid=-1)) is None


def test_a_truncated_control_record_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UndecodableField):
        marker_in(tmp_path, batch(0, [(b"\x00", b"")], control=True))
