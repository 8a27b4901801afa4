"""Batch headers are read from segment files, and a log ends where Kafka would end it."""

from pathlib import Path

import pytest
from witness_logs import batch, write_log

from harness.witness.segments import Replica, ReplicaDamage, read_log, segment_files


def offsets(folder: Path) -> tuple[list[int], str]:
    damage = ReplicaDamage()
    return [b.base_offset for b in read_log(folder, damage)], str(damage)


def test_a_header_is_read_field_by_field(tmp_path: Path) -> None:
    path = write_log(
        tmp_path, "t-0", batch(7, [(b"a", b"b")] * 3, pid=9, epoch=2, seq=5, txn=True, leader_epoch=4)
    )
    (read,) = [b._replace(source=None) for b in read_log(path.parent, ReplicaDamage())]
    assert (read.base_offset, read.last_offset, read.records) == (7, 9, 3)
    assert (read.producer_id, read.epoch, read.base_sequence, read.leader_epoch) == (9, 2, 5, 4)
    assert (read.transactional, read.control, read.codec, read.max_timestamp_ms) == (True, False, 0, 1000)


def test_segments_are_read_in_the_order_of_their_offsets(tmp_path: Path) -> None:
    write_log(tmp_path, "t-0", batch(1000), base=1000)
    path = write_log(tmp_path, "t-0", batch(9), base=9)
    write_log(tmp_path, "t-0", base=1001)
    path.with_suffix(".log.deleted").write_bytes(batch(3))
    assert offsets(path.parent) == ([9, 1000], "")
    assert [p.stem[-4:] for p in segment_files(path.parent)] == ["0009", "1000", "1001"]


@pytest.mark.parametrize("missing_bytes", [1, 10, 60, 65])
def test_an_incomplete_last_batch_ends_the_log(tmp_path: Path, missing_bytes: int) -> None:
    path = write_log(tmp_path, "t-0", batch(0), batch(1)[:-missing_bytes])
    base_offsets, damage = offsets(path.parent)
    assert base_offsets == [0]
    assert f"torn tail from byte {len(batch(0))}" in damage


@pytest.mark.parametrize("zeros", [12, 60, 61, 200, 3 << 20])
def test_a_last_segment_that_is_preallocated_with_zeros_is_not_damaged(tmp_path: Path, zeros: int) -> None:
    path = write_log(tmp_path, "t-0", batch(0), batch(1), bytes(zeros))
    assert offsets(path.parent) == ([0, 1], "")
    with path.open("r+b") as file:
        file.truncate(1 << 30)  # a hole, as a broker makes it
    assert offsets(path.parent) == ([0, 1], "")


@pytest.mark.parametrize("at", [0, 100, (2 << 20) + 5])
def test_bytes_among_the_zeros_are_a_torn_tail(tmp_path: Path, at: int) -> None:
    rest = bytearray(3 << 20)
    rest[at] = 1
    path = write_log(tmp_path, "t-0", batch(0), bytes(rest))
    base_offsets, damage = offsets(path.parent)
    assert base_offsets == [0] and "torn tail" in damage


def test_a_wrong_crc_before_the_zeros_is_a_torn_tail(tmp_path: Path) -> None:
    torn = bytearray(batch(1))
    torn[-1] ^= 1
    path = write_log(tmp_path, "t-0", batch(0), bytes(torn), bytes(200))
    base_offsets, damage = offsets(path.parent)
    assert base_offsets == [0] and "torn tail" in damage


def test_zeros_in_an_early_segment_are_damage(tmp_path: Path) -> None:
    path = write_log(tmp_path, "t-0", batch(0), bytes(200))
    write_log(tmp_path, "t-0", batch(5), base=5)
    base_offsets, damage = offsets(path.parent)
    assert base_offsets == [0, 5] and "damaged from byte" in damage


@pytest.mark.parametrize(("high_watermark", "damaged"), [(1, False), (2, False), (3, True), (None, False)])
def test_zeros_below_the_high_watermark_are_damage(
    tmp_path: Path, high_watermark: int | None, damaged: bool
) -> None:
    path = write_log(tmp_path, "t-0", batch(0), batch(1), bytes(200))
    replica = Replica(1, "t", 0, path.parent)
    replica.high_watermark = high_watermark
    assert [read.base_offset for read in replica.read()] == [0, 1]
    assert ("only zeros from byte" in str(replica.damage)) is damaged


def test_a_last_batch_with_a_wrong_crc_is_a_torn_tail(tmp_path: Path) -> None:
    torn = bytearray(batch(1))
    torn[-1] ^= 1
    path = write_log(tmp_path, "t-0", batch(0), bytes(torn))
    base_offsets, damage = offsets(path.parent)
    assert base_offsets == [0]
    assert "torn tail" in damage


def test_damage_in_an_early_segment_does_not_hide_later_segments(tmp_path: Path) -> None:
    path = write_log(tmp_path, "t-0", batch(0), b"rubbish" * 20)
    write_log(tmp_path, "t-0", batch(5), base=5)
    base_offsets, damage = offsets(path.parent)
    assert base_offsets == [0, 5]
    assert "damaged from byte" in damage
    assert "torn" not in damage


def test_a_batch_whose_offsets_go_back_is_not_read(tmp_path: Path) -> None:
    path = write_log(tmp_path, "t-0", batch(5), batch(3), batch(6))
    base_offsets, damage = offsets(path.parent)
    assert base_offsets == [5, 6]
    assert "are out of order" in damage


def test_a_gap_in_the_offsets_is_no_damage(tmp_path: Path) -> None:
    path = write_log(tmp_path, "t-0", batch(0), batch(8))
    assert offsets(path.parent) == ([0, 8], "")


def test_only_the_first_five_messages_of_damage_are_listed(tmp_path: Path) -> None:
    path = write_log(tmp_path, "t-0", batch(9), *[batch(n) for n in range(8)])
    _, damage = offsets(path.parent)
    assert damage.count("are out of order") == 5
    assert damage.endswith("and 3 more")
