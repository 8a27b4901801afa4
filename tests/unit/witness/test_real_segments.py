"""Segments that a Kafka 4.3.1 broker wrote, read as Kafka's own DumpLogSegments reads them.

`data/` was made on one node by confluent-kafka: per transactional id (shop-first, shop-c1 to
shop-c4) a commit, an abort, a commit, a commit of offsets alone, a commit of one output without
offsets; but for shop-first, then a transaction that is still open. shop-late timed out. Group
`shop` also committed once outside a transaction, group `gone` was deleted. The broker was restarted
between the ids, its offsets topic compressed with nothing, gzip, snappy, lz4 and zstd in turn. All
tables agreed with DumpLogSegments field by field.
"""

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from harness.record.partitions import PartitionIds
from harness.record.schema import LOG
from harness.witness.capture import ReplicaSource, capture

DATA = Path(__file__).parent / "data"
Tables = dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> tuple[Tables, dict[int, str]]:
    out, names = tmp_path_factory.mktemp("log"), PartitionIds()
    capture(1, [ReplicaSource(1, DATA)], names, {}, len, out, ["purchases", "invoices-eu"])
    tables = {name: pq.read_table(out / f"{name}.parquet").to_pylist() for name in LOG}
    return tables, {tp: f"{topic}-{partition}" for tp, topic, partition in names}


def test_all_batches_and_markers_are_there(real: tuple[Tables, dict[int, str]]) -> None:
    tables, names = real
    count = Counter((names[b["tp"]], b["marker"]) for b in tables["batches"])
    assert count == {
        ("__transaction_state-0", None): 40,
        ("__transaction_state-1", None): 63,
        ("__consumer_offsets-0", None): 32,
        ("__consumer_offsets-0", "commit"): 15,
        ("__consumer_offsets-0", "abort"): 5,
        ("__consumer_offsets-1", None): 2,
        ("invoices-eu-0", None): 20,
        ("invoices-eu-0", "commit"): 10,
        ("invoices-eu-0", "abort"): 6,
        ("invoices-eu-1", None): 20,
        ("invoices-eu-1", "commit"): 15,
        ("invoices-eu-1", "abort"): 5,
        ("purchases-0", None): 1,
    }
    assert {(b["leader_epoch"], b["coordinator_epoch"]) for b in tables["batches"] if b["marker"]} == {
        (epoch, epoch) for epoch in (0, 2, 4, 6, 8)
    }


def test_the_logs_end_at_their_high_watermarks(real: tuple[Tables, dict[int, str]]) -> None:
    tables, _ = real
    assert all(r["log_end"] == r["high_watermark"] and r["damaged"] is None for r in tables["replicas"])
    assert sorted(r["log_end"] for r in tables["replicas"]) == [3, 20, 36, 40, 40, 52, 63]


def test_a_transaction_that_timed_out_ends_with_a_higher_epoch(real: tuple[Tables, dict[int, str]]) -> None:
    tables, names = real
    steps = [t for t in tables["transactions"] if t["transactional_id"] == "shop-late"]
    assert [(t["state"], t["epoch"], [names[tp] for tp in t["tps"]]) for t in steps] == [
        ("Empty", 0, []),
        ("Ongoing", 0, ["invoices-eu-0"]),
        ("PrepareAbort", 1, ["invoices-eu-0"]),
        ("CompleteAbort", 1, []),
    ]
    assert {t["timeout_ms"] for t in steps} == {1500}
    assert steps[0]["start_ms"] is None
    assert steps[1]["start_ms"] == steps[1]["update_ms"] == 1795262267334


@pytest.mark.parametrize(
    ("pid", "codec"), [(1, "none"), (1000, "gzip"), (2000, "snappy"), (3000, "lz4"), (4000, "zstd")]
)
def test_offset_commits_are_read_under_every_compression(
    real: tuple[Tables, dict[int, str]], pid: int, codec: str
) -> None:
    commits = [o for o in real[0]["offsets"] if o["producer_id"] == pid]
    assert [(o["committed"], o["metadata"], o["op"]) for o in commits] == [
        (n, f"shop-1.0:{n}", 10) for n in (1, 2, 2, 3)
    ], codec


def test_a_deleted_group_leaves_a_tombstone(real: tuple[Tables, dict[int, str]]) -> None:
    gone = [o for o in real[0]["offsets"] if o["group"] == "gone"]
    assert [(o["committed"], o["metadata"], o["transactional"]) for o in gone] == [
        (7, "x", False),
        (None, None, False),
    ]
