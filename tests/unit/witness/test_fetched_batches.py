"""The folders that are written from a leader's responses. tests/chaos/test_fetch_witness.py has a real leader."""

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from witness_logs import COMMIT, batch, commit_key, commit_value, marker, state_key, state_value

from harness.common.errors import EnvironmentFailure
from harness.model.pipeline import TopicPartition
from harness.witness import LogBounds, fetch_witness
from harness.witness.fetch_witness import FetchWitness, RunBatches
from harness.witness.segments import ReplicaSource, find_replicas

STATE, OFFSETS = ("__transaction_state", 0), ("__consumer_offsets", 0)


class Leader:
    """Answers with the log from an offset on: `max_bytes` bytes, but at least one whole batch."""

    def __init__(
        self,
        logs: Mapping[TopicPartition, bytes],
        max_bytes: int = 10_000,
        refuse: Mapping[str, int] | None = None,
    ):
        self.logs, self.max_bytes, self.refuse = logs, max_bytes, refuse or {}

    def __enter__(self) -> "Leader":
        return self

    def __exit__(self, *_: object) -> None: ...

    def send_request(self, request: Any, timeout_s: float) -> Any:
        assert request.isolation_level == 0
        (topic,) = request.topics
        (partition,) = topic.partitions
        records = self.logs[topic.topic, partition.partition]
        start = next(
            (
                batch.position
                for batch in fetch_witness.batches_in(records)
                if batch.last_offset >= partition.fetch_offset
            ),
            len(records),
        )
        end_of_first = next(
            (batch.end for batch in fetch_witness.batches_in(records) if batch.position == start), start
        )
        response = SimpleNamespace(
            error_code=self.refuse.get(topic.topic, 0),
            records=records[start : max(end_of_first, start + self.max_bytes)],
        )
        return SimpleNamespace(error_code=0, responses=[SimpleNamespace(partitions=[response])])


def collect(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    leader: Leader,
    bounds: Mapping[TopicPartition, LogBounds],
    run_batches: RunBatches,
) -> FetchWitness:
    monkeypatch.setattr(fetch_witness, "KafkaConnection", lambda *_: leader)
    witness = FetchWitness({1: 9092}, run_batches)
    witness.collect(bounds, tmp_path)
    return witness


def written_log(tmp_path: Path, partition: TopicPartition) -> bytes:
    (log,) = (tmp_path / "fetched" / "1" / "data" / f"{partition[0]}-{partition[1]}").glob("*.log")
    return log.read_bytes()


ALL = RunBatches(None)


@pytest.mark.parametrize("max_bytes", [1, 70, 100, 10_000])
def test_batches_from_responses_of_any_size_are_written_unchanged(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, max_bytes: int
) -> None:
    log = b"".join(
        [batch(0), batch(1, [(b"k", b"v")] * 3, pid=7, txn=True), marker(4, COMMIT, pid=7), batch(5)]
    )
    bounds = {("in", 0): LogBounds(1, 0, 6, "7caa25d9-e45c-4eec-b97a-a5d23b41ab8a")}
    witness = collect(monkeypatch, tmp_path, Leader({("in", 0): log}, max_bytes), bounds, ALL)
    assert written_log(tmp_path, ("in", 0)) == log
    assert witness.complete_topics == {"in"}
    (replica,) = find_replicas(ReplicaSource(1, tmp_path / "fetched" / "1" / "data"), ["in"])
    assert [batch.base_offset for batch in replica.read()] == [0, 1, 4, 5]
    assert (replica.high_watermark, replica.log_end, replica.topic_id()) == (6, 6, "fKol2eRcTuy5eqXSO0Grig")


def test_batches_above_the_high_watermark_are_not_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    collect(
        monkeypatch, tmp_path, Leader({("in", 0): batch(0) + batch(1)}), {("in", 0): LogBounds(1, 0, 1)}, ALL
    )
    assert written_log(tmp_path, ("in", 0)) == batch(0)


def test_a_topic_with_a_gap_in_its_offsets_is_not_complete(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    logs = {("gap", 0): batch(0) + batch(2), ("complete", 0): batch(4)}
    bounds = {("gap", 0): LogBounds(1, 0, 3), ("complete", 0): LogBounds(1, 4, 5)}
    assert collect(monkeypatch, tmp_path, Leader(logs), bounds, ALL).complete_topics == {"complete"}


def test_a_log_that_acls_hide_is_unreadable_and_has_no_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    leader = Leader({("in", 0): batch(0), OFFSETS: batch(0)}, refuse={OFFSETS[0]: 29})
    bounds = {("in", 0): LogBounds(1, 0, 1), OFFSETS: LogBounds(1, 0, 1)}
    witness = collect(monkeypatch, tmp_path, leader, bounds, ALL)
    assert list(witness.unreadable) == ["__consumer_offsets"]
    replicas = find_replicas(ReplicaSource(1, tmp_path / "fetched" / "1" / "data"), ["in", OFFSETS[0]])
    assert [replica.topic for replica in replicas] == ["in"]


def test_any_other_error_of_the_leader_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    leader = Leader({("in", 0): batch(0)}, refuse={"in": 6})
    with pytest.raises(EnvironmentFailure, match="fetching in/0 from offset 0 was refused with error 6"):
        collect(monkeypatch, tmp_path, leader, {("in", 0): LogBounds(1, 0, 1)}, ALL)


def test_a_partition_without_a_leader_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailure, match="in/0 has no leader"):
        collect(monkeypatch, tmp_path, Leader({}), {("in", 0): LogBounds(-1, 0, 1)}, ALL)


def test_only_the_runs_batches_of_internal_topics_are_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    own_id, other_id = "fencepost-ab-shop-1", "another"
    states = [
        batch(0, [(state_key(own_id), state_value(1, 1))]),  # of producer 9
        batch(1, [(state_key(other_id), state_value(1, 1))]),
    ]
    value = commit_value(4, 42, "")
    offsets = [
        batch(0, [(commit_key("g", "in", 0), value)], pid=9, txn=True),
        batch(1, [(commit_key("g", "in", 0), value)], pid=8, txn=True),
        marker(2, COMMIT, pid=9),
        marker(3, COMMIT, pid=8),
        batch(4, [(commit_key("g", "in", 0), value)]),
        batch(5, [(commit_key("theirs", "x", 0), value)]),
    ]
    leader = Leader({STATE: b"".join(states), OFFSETS: b"".join(offsets)})
    bounds = {OFFSETS: LogBounds(1, 0, 6), STATE: LogBounds(1, 0, 2)}
    witness = collect(monkeypatch, tmp_path, leader, bounds, RunBatches("fencepost-ab", ["g"]))
    assert written_log(tmp_path, STATE) == states[0]
    assert written_log(tmp_path, OFFSETS) == offsets[0] + offsets[2] + offsets[4]
    assert witness.complete_topics == {STATE[0], OFFSETS[0]}, "a batch of another program is no gap"
