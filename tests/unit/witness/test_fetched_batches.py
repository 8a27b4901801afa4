"""What is made of a leader's answers; tests/chaos/test_fetch_witness.py has real ones."""

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from witness_logs import COMMIT, batch, commit_key, commit_value, marker, state_key, state_value

from harness.common.errors import EnvironmentFailure
from harness.model.pipeline import TopicPartition
from harness.witness import LogBounds, fetch_witness
from harness.witness.fetch_witness import FetchWitness
from harness.witness.own_batches import RunBatches
from harness.witness.replicas import ReplicaSource, find_replicas

STATE, OFFSETS = ("__transaction_state", 0), ("__consumer_offsets", 0)


class Leader:
    """Answers with what stands from an offset on, `most` bytes of it, whole or not."""

    def __init__(
        self,
        logs: Mapping[TopicPartition, bytes],
        most: int = 10_000,
        refuse: Mapping[str, int] | None = None,
    ):
        self.logs, self.most, self.refuse = logs, most, refuse or {}

    def __enter__(self) -> "Leader":
        return self

    def __exit__(self, *_: object) -> None: ...

    def send_request(self, request: Any, timeout_s: float) -> Any:
        assert request.isolation_level == 0
        (topic,) = request.topics
        (asked,) = topic.partitions
        records = self.logs[topic.topic, asked.partition]
        at = next(
            (
                one.position
                for one in fetch_witness.batches_in(records)
                if one.last_offset >= asked.fetch_offset
            ),
            len(records),
        )
        whole = next((one.end for one in fetch_witness.batches_in(records) if one.position == at), at)
        answer = SimpleNamespace(
            error_code=self.refuse.get(topic.topic, 0), records=records[at : max(whole, at + self.most)]
        )
        return SimpleNamespace(error_code=0, responses=[SimpleNamespace(partitions=[answer])])


def take(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    leader: Leader,
    bounds: Mapping[TopicPartition, LogBounds],
    own: RunBatches,
) -> FetchWitness:
    monkeypatch.setattr(fetch_witness, "KafkaConnection", lambda *_: leader)
    witness = FetchWitness({1: 9092}, own)
    witness.collect(bounds, tmp_path)
    return witness


def written(tmp_path: Path, place: TopicPartition) -> bytes:
    (log,) = (tmp_path / "fetched" / "1" / "data" / f"{place[0]}-{place[1]}").glob("*.log")
    return log.read_bytes()


ALL = RunBatches(None)


@pytest.mark.parametrize("most", [1, 70, 100, 10_000])
def test_batches_that_come_in_pieces_are_written_as_they_stand(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, most: int
) -> None:
    log = b"".join(
        [batch(0), batch(1, [(b"k", b"v")] * 3, pid=7, txn=True), marker(4, COMMIT, pid=7), batch(5)]
    )
    bounds = {("in", 0): LogBounds(1, 0, 6, "7caa25d9-e45c-4eec-b97a-a5d23b41ab8a")}
    witness = take(monkeypatch, tmp_path, Leader({("in", 0): log}, most), bounds, ALL)
    assert written(tmp_path, ("in", 0)) == log
    assert witness.complete_topics == {"in"}
    (replica,) = find_replicas(ReplicaSource(1, tmp_path / "fetched" / "1" / "data"), ["in"])
    assert [one.base_offset for one in replica.read()] == [0, 1, 4, 5]
    assert (replica.high_watermark, replica.log_end, replica.topic_id()) == (6, 6, "fKol2eRcTuy5eqXSO0Grig")


def test_what_stands_above_the_high_watermark_is_left(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    take(
        monkeypatch, tmp_path, Leader({("in", 0): batch(0) + batch(1)}), {("in", 0): LogBounds(1, 0, 1)}, ALL
    )
    assert written(tmp_path, ("in", 0)) == batch(0)


def test_a_gap_is_seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    logs = {("gap", 0): batch(0) + batch(2), ("whole", 0): batch(4)}
    bounds = {("gap", 0): LogBounds(1, 0, 3), ("whole", 0): LogBounds(1, 4, 5)}
    assert take(monkeypatch, tmp_path, Leader(logs), bounds, ALL).complete_topics == {"whole"}


def test_a_log_that_acls_keep_is_refused_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    leader = Leader({("in", 0): batch(0), OFFSETS: batch(0)}, refuse={OFFSETS[0]: 29})
    bounds = {("in", 0): LogBounds(1, 0, 1), OFFSETS: LogBounds(1, 0, 1)}
    witness = take(monkeypatch, tmp_path, leader, bounds, ALL)
    assert list(witness.unreadable) == ["__consumer_offsets"]
    found = find_replicas(ReplicaSource(1, tmp_path / "fetched" / "1" / "data"), ["in", OFFSETS[0]])
    assert [replica.topic for replica in found] == ["in"]


def test_any_other_refusal_is_a_failure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    leader = Leader({("in", 0): batch(0)}, refuse={"in": 6})
    with pytest.raises(EnvironmentFailure, match="fetching in/0 from offset 0 was refused with error 6"):
        take(monkeypatch, tmp_path, leader, {("in", 0): LogBounds(1, 0, 1)}, ALL)


def test_nobody_leads_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailure, match="in/0 has no leader"):
        take(monkeypatch, tmp_path, Leader({}), {("in", 0): LogBounds(-1, 0, 1)}, ALL)


def test_of_internal_topics_only_what_is_the_runs_is_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    mine, theirs = "fencepost-ab-shop-1", "another"
    states = [
        batch(0, [(state_key(mine), state_value(1, 1))]),  # of producer 9
        batch(1, [(state_key(theirs), state_value(1, 1))]),
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
    witness = take(monkeypatch, tmp_path, leader, bounds, RunBatches("fencepost-ab", ["g"]))
    assert written(tmp_path, STATE) == states[0]
    assert written(tmp_path, OFFSETS) == offsets[0] + offsets[2] + offsets[4]
    assert witness.complete_topics == {STATE[0], OFFSETS[0]}, "what was left out is no gap"
