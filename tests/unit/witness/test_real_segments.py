"""Segments that a Kafka 4.3.1 broker wrote are read as Kafka's tool DumpLogSegments reads them.

confluent-kafka wrote `data/` on one node. Each of the transactional ids shop-first and shop-c1 to shop-c4 has five
transactions: a commit, an abort, a commit, a commit of offsets alone, and a commit of one output without offsets. Each
except shop-first then has an open transaction. The transaction of shop-late timed out. The group `shop` also committed
once outside a transaction. The group `gone` was deleted. The broker was restarted for each id, with another compression
of its offsets topic: none, gzip, snappy, lz4 and zstd. Every field of the tables was equal to the output of
DumpLogSegments.
"""

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from harness.record.naming import PartitionIds
from harness.record.schema import LOG
from harness.witness.tabulate import ReplicaSource, capture

DATA = Path(__file__).parent / "data"
Tables = dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> tuple[Tables, dict[int, str]]:
    out, names = tmp_path_factory.mktemp("log"), PartitionIds()
    capture(1, [ReplicaSource(1, DATA)], names, {}, len, out, ["purchases", "invoices-eu"])
    tables = {name: pq.read_table(out / f"{name}.parquet").to_pylist() for name in LOG}
    return tables, {tp: f"{topic}-{partition}" for tp, topic, partition in names}


def test_all_batches_and_markers_are_read(real: tuple[Tables, dict[int, str]]) -> None:
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
    states = [t for t in tables["transactions"] if t["transactional_id"] == "shop-late"]
    assert [(t["state"], t["epoch"], [names[tp] for tp in t["tps"]]) for t in states] == [
        ("Empty", 0, []),
        ("Ongoing", 0, ["invoices-eu-0"]),
        ("PrepareAbort", 1, ["invoices-eu-0"]),
        ("CompleteAbort", 1, []),
    ]
    assert {t["timeout_ms"] for t in states} == {1500}
    assert states[0]["start_ms"] is None
    assert states[1]["start_ms"] == states[1]["update_ms"] == 1795262267334


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
    offsets = [o for o in real[0]["offsets"] if o["group"] == "gone"]
    assert [(o["committed"], o["metadata"], o["transactional"]) for o in offsets] == [
        (7, "x", False),
        (None, None, False),
    ]
