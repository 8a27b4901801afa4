"""Throughput, latency and outcomes of programs without journals, from the broker logs."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.record.schema import LOG
from harness.record.table_reader import RunTables
from harness.record.timeline import load
from harness.record.timeline.load import BY_LOGS, UNNAMED, Ending, StageTopics, Timeline
from reports.pictures.static import over_time
from reports.series import Series, series
from tests.support.synthetic_store import write_table

ZERO_MS = 1_000_000.0
BILL = StageTopics("bill", frozenset({"out"}), {"b-1": "bill-1"})


def log_table(folder: Path, name: str, rows: Sequence[dict[str, Any]]) -> None:
    (folder / "log").mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(list(rows), schema=LOG[name]), folder / "log" / f"{name}.parquet")


def states(defaults: str, *stage: tuple[str, float], first: int = 0) -> list[dict[str, Any]]:
    """States of an id, each with its second."""
    return [
        {"transactional_id": defaults, "log_tp": 9, "log_offset": first + n, "state": state, "start_ms": None}
        | {"update_ms": round(ZERO_MS + at_s * 1e3)}
        for n, (state, at_s) in enumerate(stage)
    ]


def batch(tp: int, base: int, at_s: float, count: int = 1, **more: Any) -> dict[str, Any]:
    defaults = {
        "tp": tp,
        "base_offset": base,
        "last_offset": base + count - 1,
        "count": count,
        "producer_id": 7,
        "leader": True,
        "control": False,
    }
    return defaults | {"transactional": True, "max_timestamp_ms": round(ZERO_MS + at_s * 1e3)} | more


def read(
    folder: Path, stages: Sequence[StageTopics] = (BILL,), end_s: float = math.inf
) -> tuple[Timeline, Series]:
    timeline = load.load_from_logs(RunTables(folder, ZERO_MS), stages, end_s)
    return timeline, series(timeline)


def stored(folder: Path, transactions: list[dict[str, Any]], batches: list[dict[str, Any]]) -> Path:
    write_table(folder, "partitions", [{"tp": 0, "topic": "in"}, {"tp": 1, "topic": "out"}])
    log_table(folder, "transactions", transactions)
    log_table(folder, "batches", batches)
    return folder


def test_a_transaction_counts_for_its_stage_in_the_second_of_its_end(tmp_path: Path) -> None:
    commit = [("Empty", 0.1), ("Ongoing", 1.0), ("Ongoing", 1.2), ("PrepareCommit", 2.0)]
    rows = states("b-1", *commit, ("CompleteCommit", 2.1), ("Ongoing", 3.0), ("PrepareAbort", 4.0))
    rows += states("b-1", ("CompleteAbort", 4.2), ("Ongoing", 6.0), first=20)
    rows += states("other", ("Ongoing", 5.0), ("PrepareCommit", 5.1), ("CompleteCommit", 5.9), first=40)
    rows += states("fencepost-warm-up-1", ("Ongoing", 0.0), ("CompleteCommit", 0.2), first=60)
    timeline, sums = read(stored(tmp_path, rows[::-1], []))
    assert {key: dict(counts) for key, counts in sums.outcomes.items()} == {
        ("bill", Ending.COMMITTED): {2: 1},
        ("bill", Ending.ABORTED): {4: 1},
        ("bill", Ending.OPEN): {6: 1},
        (UNNAMED, Ending.COMMITTED): {5: 1},
    }
    assert sums.committed == {2: 1, 5: 1}
    assert sums.quantile_ms(2, 0.5) == pytest.approx(100, rel=0.05)
    assert sums.quantile_ms(5, 0.5) == pytest.approx(800, rel=0.05)
    assert (timeline.missing, sums.categories, sums.by_logs) == ([], BY_LOGS, True)
    assert sums.buckets == range(2, 7)


def test_a_transaction_has_the_times_of_its_states_and_its_instance(tmp_path: Path) -> None:
    rows = states("b-1", ("Ongoing", 1.0), ("Ongoing", 1.5), ("PrepareCommit", 2.0), ("CompleteCommit", 2.0))
    written = [batch(9, 0, 1.0), batch(9, 1, 1.5), batch(9, 2, 2.0), batch(9, 3, 2.7, 2)]
    timeline, _ = read(stored(tmp_path, rows, written))
    (only,) = timeline.transactions.to_pylist()
    assert (only["process"], only["ending"]) == ("bill-1", "committed")
    assert [only[name] for name in ("begin_ns", "decided_ns", "end_ns")] == [1e9, 2e9, 2.7e9]


def test_the_state_of_one_log_partition_is_not_dated_by_a_batch_of_another(tmp_path: Path) -> None:
    rows = states("b-1", ("Ongoing", 1.0), ("CompleteCommit", 2.0), first=5)
    timeline, _ = read(stored(tmp_path, rows, [batch(8, 0, 7.0, 100), batch(9, 0, 3.0, 5)]))
    assert timeline.transactions["end_ns"].to_pylist() == [2_000_000_000]


def test_a_transaction_that_is_fenced_and_never_completed_is_not_left_open(tmp_path: Path) -> None:
    rows = states("b-1", ("Ongoing", 1.0), ("Empty", 2.0), ("Ongoing", 3.0), ("CompleteAbort", 4.0))
    timeline, _ = read(stored(tmp_path, rows, []))
    assert timeline.transactions["ending"].to_pylist() == [Ending.ABORTED]


def test_the_end_of_a_transaction_without_its_start_is_not_counted(tmp_path: Path) -> None:
    rows = states("b-1", ("CompleteCommit", 1.0), ("Ongoing", 2.0), ("Empty", 3.0), ("CompleteAbort", 4.0))
    timeline, sums = read(stored(tmp_path, rows, []))
    assert sums.outcomes == {}
    assert timeline.missing == [
        "the transaction log has the end of 2 transactions without the start: they are not drawn"
    ]


def test_outputs_count_when_their_transaction_commits_in_their_partition(tmp_path: Path) -> None:
    rows = [
        batch(1, 0, 1.5, 3),
        batch(1, 3, 1.6, 4, producer_id=8),
        batch(1, 7, 2.0, control=True, marker="commit"),
        batch(1, 8, 2.0, control=True, marker="abort", producer_id=8),
        batch(1, 9, 2.5, 5),  # left open: not committed
        batch(1, 14, 3.5, 2, transactional=False, producer_id=-1),
        batch(0, 0, 1.0, 100),  # an input
        batch(1, 0, 1.5, 3, leader=False),  # of a follower
        batch(3, 20, 1.5, 9),  # another topic, with a marker at a greater offset
        batch(3, 30, 1.5, control=True, marker="commit"),
    ]
    timeline, sums = read(stored(tmp_path, [], rows[::-1]))
    assert sums.records == {2: 3, 3: 2}
    assert sorted(timeline.commits.to_pylist(), key=lambda row: row["time_ns"]) == [
        {"tp": 1, "time_ns": 2_000_000_000, "records": 3},
        {"tp": 1, "time_ns": 3_500_000_000, "records": 2},
    ]


def test_without_the_transaction_log_the_records_are_drawn(tmp_path: Path) -> None:
    stored(tmp_path, [], [batch(1, 0, 1.5, transactional=False)])
    (tmp_path / "log" / "transactions.parquet").unlink()
    timeline, _ = read(tmp_path)
    sums = series(timeline, at_least_s=9.0)
    assert sums.records == {1: 1} and sums.end_s == 9.0
    assert timeline.missing == ["log/transactions.parquet does not exist"]
    drawn = str(over_time(sums, (), 960))
    assert "Records written" in drawn and "Committed transactions" not in drawn and "latency" not in drawn


def test_records_outside_the_run_are_noted_and_not_drawn(tmp_path: Path) -> None:
    """A record may have the time stamp of an old input, or of a wrong clock."""
    rows = [batch(1, n, at_s, transactional=False) for n, at_s in enumerate((-3600.0, 5.0, 59.0, 1e8))]
    timeline, sums = read(stored(tmp_path, [], rows), end_s=60.0)
    assert sums.records == {5: 1, 59: 1} and sums.end_s == 60.0
    assert timeline.missing == ["the time stamps of 2 records are outside the run: they are not drawn"]


def test_a_damaged_log_is_a_note(tmp_path: Path) -> None:
    stored(tmp_path, [], [])
    (tmp_path / "log" / "batches.parquet").write_bytes(b"no Parquet")
    (note,) = read(tmp_path)[0].missing
    assert "batches" in note or "Parquet" in note


def test_the_drawing_names_the_ways_in_which_transactions_ended(tmp_path: Path) -> None:
    rows = states("b-1", ("Ongoing", 1.0), ("PrepareCommit", 2.0), ("CompleteCommit", 2.1), ("Ongoing", 3.0))
    rows += states("x", ("Ongoing", 1.0), ("PrepareAbort", 2.0), ("CompleteAbort", 2.1), first=10)
    drawn = str(over_time(read(stored(tmp_path, rows, []))[1], (), 960))
    for words in ("Transactions of stage bill", "Transactions of all programs", *BY_LOGS):
        assert words in drawn


def test_a_long_run_gets_wider_buckets(tmp_path: Path) -> None:
    rows = states("b-1", *(pair for n in range(300) for pair in (("Ongoing", n), ("CompleteCommit", n))))
    _, sums = read(stored(tmp_path, rows, []))
    assert sums.width_s == 5 and sums.by_logs and sums.categories == BY_LOGS
    assert sum(sums.committed.values()) == 300 == sums.ended("bill", Ending.COMMITTED).total()


def test_the_stages_of_a_run_whose_programs_keep_no_journals() -> None:
    stage = {"name": "bill", "writes": ["out"], "journaled": False, "transactional_ids": {"bill-1": "b-1"}}
    assert load.stages_without_journals({"workload": {"stages": [stage]}}) == [BILL]
    unnamed = {"name": "count", "journaled": False}
    assert load.stages_without_journals({"workload": {"stages": [stage, unnamed]}}) == [
        BILL,
        StageTopics("count"),
    ]
    for settings in ({"workload": {"stages": [stage, {"name": "shop"}]}}, {"workload": {"stages": 7}}, {}):
        assert load.stages_without_journals(settings) == []
