"""An observer reads to the ends before it stops, and records how far it has read each partition."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, SimpleNamespace

import orjson
import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from harness.record.events import JournalBegan
from harness.record.journal import Journal
from harness.record.naming import Headers
from harness.roles import observer as readers
from harness.roles.control import Control
from harness.roles.observer import Observer


class Message:
    def __init__(self, topic: str, offset: int, error: int | None = None, partition: int = 0) -> None:
        self._topic, self._offset, self._error, self._partition = topic, offset, error, partition

    def error(self) -> KafkaError | None:
        return None if self._error is None else KafkaError(self._error)

    def topic(self) -> str:
        return self._topic

    def partition(self) -> int:
        return self._partition

    def offset(self) -> int:
        return self._offset

    def headers(self) -> Headers:
        return []


class Consumer:
    """Delivers its batches one by one. With the first one, the run says stop.

    `counts` has the number of partitions of each topic. Without it, no broker answers.
    """

    def __init__(
        self, control: Control, batches: Sequence[list[Message]], counts: Mapping[str, int] | None
    ) -> None:
        self._control, self._batches, self._counts = control, list(batches), counts
        self.asked_while_stopping: list[bool] = []

    def assign(self, partitions: Sequence[TopicPartition]) -> None:
        pass

    incremental_assign = assign

    def list_topics(self, topic: str, timeout: float) -> SimpleNamespace:
        self.asked_while_stopping.append(self._control.stopping)
        if self._counts is None:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        partitions = dict.fromkeys(range(self._counts[topic]))
        return SimpleNamespace(topics={topic: SimpleNamespace(partitions=partitions)})

    def consume(self, most: int, timeout: float) -> list[Message]:
        self._control.stopping = True
        return self._batches.pop(0) if self._batches else []


def ends_of(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    batches: Sequence[list[Message]],
    counts: Mapping[str, int] | None = MappingProxyType({"x": 1, "y": 1}),
) -> dict[str, object]:
    control = Control(None)
    consumer = Consumer(control, batches, counts)
    monkeypatch.setattr(readers, "Consumer", lambda _: consumer)
    journal = Journal(tmp_path / "o.jsonl", 0, JournalBegan("o"))
    Observer("nowhere:1", [("x", 0), ("y", 0)], journal, control).run()
    *_, last_event = map(orjson.loads, (tmp_path / "o.jsonl").read_bytes().splitlines())
    event: dict[str, object] = last_event
    return event


def test_an_observer_reads_to_the_ends_after_the_run_says_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = KafkaError._PARTITION_EOF
    batches = [
        [Message("y", 0, end), Message("x", 3)],
        [Message("x", 4), Message("x", 5, end)],
        [Message("x", 9)],  # this batch must not be read
    ]
    last_event = ends_of(tmp_path, monkeypatch, batches)
    assert last_event["ends"] == {
        "x/0": {"first": 3, "next": 5, "read": 2, "sentinel": None, "expected": None},
        "y/0": {"first": 0, "next": 0, "read": 0, "sentinel": None, "expected": None},
    }
    assert "errors" not in last_event


def test_an_observer_reads_the_partitions_that_a_topic_got_during_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = KafkaError._PARTITION_EOF
    batches = [
        [Message("x", 0, end), Message("y", 0, end)],
        [Message("y", 0, partition=1), Message("y", 1, end, partition=1)],
    ]
    last_event = ends_of(tmp_path, monkeypatch, batches, {"x": 1, "y": 2})
    reads = {name: end["read"] for name, end in last_event["ends"].items()}  # type: ignore[attr-defined]
    assert reads == {"x/0": 0, "y/0": 0, "y/1": 1} and "errors" not in last_event


def test_an_observer_that_learns_of_no_partition_waits_for_a_broker_and_counts_its_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers, "ENDS_TIMEOUT_S", 0.01)
    end = KafkaError._PARTITION_EOF
    last_event = ends_of(tmp_path, monkeypatch, [[Message("x", 0, end), Message("y", 0, end)]], None)
    assert last_event["errors"] > 1  # type: ignore[operator]


def test_an_observer_asks_for_new_partitions_during_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers, "REFRESH_S", -1.0)
    control, end = Control(None), KafkaError._PARTITION_EOF
    consumer = Consumer(control, [[Message("x", 0, end)]], {"x": 1})
    monkeypatch.setattr(readers, "Consumer", lambda _: consumer)
    Observer("nowhere:1", [("x", 0)], Journal(tmp_path / "o.jsonl", 0, JournalBegan("o")), control).run()
    assert consumer.asked_while_stopping == [False, True]


def test_an_observer_that_reads_nothing_counts_its_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers, "ENDS_TIMEOUT_S", 0.01)
    last_event = ends_of(tmp_path, monkeypatch, [[Message("x", 0, KafkaError._ALL_BROKERS_DOWN)]])
    assert last_event["errors"] == 1
    assert [end["read"] for end in last_event["ends"].values()] == [0, 0]  # type: ignore[attr-defined]
