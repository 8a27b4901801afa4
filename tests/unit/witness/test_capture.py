"""The logs of all brokers become four tables."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from witness_logs import (
    ABORT,
    COMMIT,
    batch,
    commit_key,
    commit_value,
    marker,
    state_key,
    state_value,
    write_log,
)

from harness.common.errors import EnvironmentFailure
from harness.record import parquet
from harness.record.naming import PartitionIds
from harness.record.schema import LOG
from harness.witness.tabulate import ReplicaSource, capture

Rows = list[dict[str, Any]]


def read(
    tmp_path: Path, brokers: int = 1, leaders: Mapping[tuple[str, int], int] | None = None
) -> tuple[dict[str, Rows], PartitionIds]:
    names = PartitionIds()
    sources = [ReplicaSource(n, tmp_path / str(n)) for n in range(1, brokers + 1)]
    ops = {"shop-1.0:8": 8}
    capture(3, sources, names, leaders or {}, ops.get, tmp_path / "log", ["out", "in"])
    tables = {name: pq.read_table(tmp_path / "log" / f"{name}.parquet") for name in LOG}
    assert all(table.schema == LOG[name] for name, table in tables.items())
    return {name: table.to_pylist() for name, table in tables.items()}, names


def test_an_aborted_and_a_committed_transaction_of_one_producer_are_read(tmp_path: Path) -> None:
    first = batch(0, [(b"k", b"1")] * 2, pid=9, epoch=0, seq=0, txn=True)
    second = batch(3, pid=9, epoch=0, seq=2, txn=True)
    write_log(tmp_path / "1", "out-0", first, marker(2, ABORT, pid=9), second, marker(4, COMMIT, pid=9))
    rows, _ = read(tmp_path)
    batches = [(b["base_offset"], b["last_offset"], b["base_sequence"], b["marker"]) for b in rows["batches"]]
    assert batches == [(0, 1, 0, None), (2, 2, -1, "abort"), (3, 3, 2, None), (4, 4, -1, "commit")]
    assert {(b["run"], b["producer_id"], b["epoch"], b["transactional"]) for b in rows["batches"]} == {
        (3, 9, 0, True)
    }
    assert [b["coordinator_epoch"] for b in rows["batches"]] == [None, 5, None, 5]


def test_every_replica_is_read_and_one_is_the_leaders(tmp_path: Path) -> None:
    write_log(tmp_path / "1", "out-0", batch(0), batch(1))
    write_log(tmp_path / "2", "out-0", batch(0))
    rows, _ = read(tmp_path, brokers=2, leaders={("out", 0): 2})
    assert [(r["broker"], r["leader"], r["log_end"]) for r in rows["replicas"]] == [
        (1, False, 2),
        (2, True, 1),
    ]
    assert [(b["broker"], b["leader"]) for b in rows["batches"]] == [(1, False), (1, False), (2, True)]


@pytest.mark.parametrize("leaders", [{}, {("out", 0): -1}, {("out", 0): 7}])
def test_without_a_known_leader_the_replica_that_kafka_would_elect_counts(
    tmp_path: Path, leaders: Mapping[tuple[str, int], int]
) -> None:
    write_log(tmp_path / "1", "out-0", batch(0), batch(1), batch(2))
    write_log(tmp_path / "2", "out-0", batch(0), batch(1, leader_epoch=1))
    write_log(tmp_path / "3", "out-0", batch(0), batch(1, leader_epoch=1), batch(2, leader_epoch=1))
    rows, _ = read(tmp_path, brokers=3, leaders=leaders)
    assert [r["broker"] for r in rows["replicas"] if r["leader"]] == [3]


def test_offset_commits_are_read_from_the_leader_with_their_operation(tmp_path: Path) -> None:
    value, other_value = commit_value(3, 42, "shop-1.0:8\0"), commit_value(3, 7, "else")
    log = [
        batch(0, [(commit_key("g", "in", 1), value)], pid=9, epoch=0, seq=0, txn=True),
        marker(1, COMMIT, pid=9),
        batch(2, [(commit_key("g", "in", 1), other_value), (b"\x00\x02\x00\x01g", b"?")], time_ms=50),
        batch(4, [(commit_key("g", "in", 1), None)], time_ms=60),
    ]
    for broker in ("1", "2"):
        write_log(tmp_path / broker, "__consumer_offsets-4", *log)
    rows, names = read(tmp_path, brokers=2)
    tp = names.id("in", 1)
    commits = [
        (o["log_offset"], o["committed"], o["metadata"], o["op"], o["timestamp_ms"]) for o in rows["offsets"]
    ]
    assert commits == [(0, 42, "shop-1.0:8", 8, 77), (2, 7, "else", None, 77), (4, None, None, None, 60)]
    assert {(o["group"], o["tp"], o["log_tp"]) for o in rows["offsets"]} == {
        ("g", tp, names.id("__consumer_offsets", 4))
    }
    assert [(o["producer_id"], o["transactional"]) for o in rows["offsets"]] == [
        (9, True),
        (-1, False),
        (-1, False),
    ]
    assert [b["marker"] for b in rows["batches"] if b["leader"]] == [None, "commit", None, None]


def test_the_states_of_a_transaction_are_read_with_their_partitions(tmp_path: Path) -> None:
    pairs = [(state_key("shop-1"), state_value(1, 1)), (state_key("shop-1"), None)]
    write_log(tmp_path / "1", "__transaction_state-0", batch(5, pairs, time_ms=90))
    rows, names = read(tmp_path)
    first, last = rows["transactions"]
    assert (first["log_offset"], first["state"], first["timeout_ms"]) == (5, "Ongoing", 60_000)
    assert first["tps"] == [names.id("out", 0), names.id("out", 2)]
    assert (last["log_offset"], last["state"], last["producer_id"], last["tps"]) == (6, "Tombstone", None, [])
    assert last["update_ms"] == 90


def test_kafkas_files_give_high_watermark_log_start_and_topic_id(tmp_path: Path) -> None:
    path = write_log(tmp_path / "1", "out-0", batch(3), batch(4), base=3)
    (path.parent / "partition.metadata").write_text("version: 0\ntopic_id: QXn609QvQUOnovIZVNLKCA")
    write_log(tmp_path / "1", "out-1", base=12)
    (tmp_path / "1" / "replication-offset-checkpoint").write_text("0\n2\nout 0 4\nother 1 9\n")
    (tmp_path / "1" / "log-start-offset-checkpoint").write_text("0\n1\nout 0 4\n")
    rows, _ = read(tmp_path)
    columns = ("topic_id", "log_start", "log_end", "high_watermark", "damaged")
    assert [tuple(r[c] for c in columns) for r in rows["replicas"]] == [
        ("QXn609QvQUOnovIZVNLKCA", 4, 5, 4, None),
        (None, 12, 12, None, None),
    ]


def test_other_topics_and_folders_that_kafka_will_delete_are_not_read(tmp_path: Path) -> None:
    for name in (
        "out-0",
        "out-eu-0",
        "other-0",
        "out-1.b4d0-delete",
        "out-2.b4d0-future",
        "out-3.b4d0-stray",
    ):
        write_log(tmp_path / "1", name, batch(0))
    rows, names = read(tmp_path)
    assert [(topic, partition) for _, topic, partition in names] == [("out", 0)]
    assert len(rows["batches"]) == 1


def test_a_damaged_batch_is_reported_and_the_rest_is_read(tmp_path: Path) -> None:
    damaged = bytearray(marker(1, COMMIT, pid=9))
    damaged[-1] ^= 1
    write_log(tmp_path / "1", "out-0", batch(0, pid=9, epoch=0, seq=0, txn=True), bytes(damaged), batch(2))
    rows, _ = read(tmp_path)
    assert [b["base_offset"] for b in rows["batches"]] == [0, 2]
    assert rows["replicas"][0]["damaged"] == "damaged batch at offset 1: the CRC is wrong"


def test_a_record_of_an_unknown_version_is_reported_and_the_next_is_read(tmp_path: Path) -> None:
    pairs = [(state_key("a"), state_value(2, 1)), (state_key("b"), state_value(1, 1))]
    write_log(tmp_path / "1", "__transaction_state-0", batch(0, pairs))
    rows, _ = read(tmp_path)
    assert [t["transactional_id"] for t in rows["transactions"]] == ["b"]
    assert "version 2" in rows["replicas"][0]["damaged"]


def test_rows_are_written_in_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "CHUNK_ROWS", 4)
    write_log(tmp_path / "1", "out-0", *[batch(n) for n in range(10)])
    rows, _ = read(tmp_path)
    assert [b["base_offset"] for b in rows["batches"]] == list(range(10))
    assert pq.ParquetFile(tmp_path / "log" / "batches.parquet").num_row_groups == 3


def test_a_broker_without_a_data_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailure, match="broker 1"):
        read(tmp_path)


def test_a_failure_leaves_no_table_that_looks_complete(tmp_path: Path) -> None:
    write_log(tmp_path / "1", "out-0", batch(0))
    (tmp_path / "1" / "replication-offset-checkpoint").write_text("0\n2\nout 0 4\n")
    with pytest.raises(EnvironmentFailure, match="checkpoint"):
        read(tmp_path)
    assert not list(tmp_path.glob("log/*.parquet"))


def test_offsets_in_other_topics_are_not_stored(tmp_path: Path) -> None:
    value = commit_value(3, 42, "")
    pairs = [(commit_key("g", "in", 0), value), (commit_key("theirs", "theirs", 0), value)]
    write_log(tmp_path / "1", "__consumer_offsets-4", batch(0, pairs))
    rows, names = read(tmp_path)
    assert [(row["group"], row["tp"]) for row in rows["offsets"]] == [("g", names.id("in", 0))]
