"""An observer reads to the ends before it stops, and says of every partition what it was given."""

from collections.abc import Sequence
from pathlib import Path

import orjson
import pytest
from confluent_kafka import KafkaError, TopicPartition

from harness.record.events import JournalBegan
from harness.record.journal import Journal
from harness.record.naming import Headers
from harness.roles import observer as readers
from harness.roles.control import Control
from harness.roles.observer import Observer


class Message:
    def __init__(self, topic: str, offset: int, error: int | None = None) -> None:
        self._topic, self._offset, self._error = topic, offset, error

    def error(self) -> KafkaError | None:
        return None if self._error is None else KafkaError(self._error)

    def topic(self) -> str:
        return self._topic

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self._offset

    def headers(self) -> Headers:
        return []


class Consumer:
    """Gives its batches one by one; with the first of them the observer is told to stop."""

    def __init__(self, control: Control, batches: Sequence[list[Message]]) -> None:
        self._control, self._batches = control, list(batches)

    def assign(self, places: Sequence[TopicPartition]) -> None:
        pass

    def consume(self, most: int, timeout: float) -> list[Message]:
        self._control.stopping = True
        return self._batches.pop(0) if self._batches else []


def ends_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batches: Sequence[list[Message]]
) -> dict[str, object]:
    control = Control(None)
    monkeypatch.setattr(readers, "Consumer", lambda _: Consumer(control, batches))
    journal = Journal(tmp_path / "o.jsonl", 0, JournalBegan("o"))
    Observer("nowhere:1", [("x", 0), ("y", 0)], journal, control).run()
    *_, told = map(orjson.loads, (tmp_path / "o.jsonl").read_bytes().splitlines())
    found: dict[str, object] = told
    return found


def test_what_came_after_it_was_told_to_stop_is_read_to_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = KafkaError._PARTITION_EOF
    batches = [
        [Message("y", 0, end), Message("x", 3)],
        [Message("x", 4), Message("x", 5, end)],
        [Message("x", 9)],  # nobody asks for this one
    ]
    told = ends_of(tmp_path, monkeypatch, batches)
    assert told["ends"] == {
        "x/0": {"first": 3, "next": 5, "read": 2, "sentinel": None, "expected": None},
        "y/0": {"first": 0, "next": 0, "read": 0, "sentinel": None, "expected": None},
    }
    assert "errors" not in told


def test_a_blind_observer_says_so_and_counts_its_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers, "ENDS_TIMEOUT_S", 0.01)
    told = ends_of(tmp_path, monkeypatch, [[Message("x", 0, KafkaError._ALL_BROKERS_DOWN)]])
    assert told["errors"] == 1
    assert [end["read"] for end in told["ends"].values()] == [0, 0]  # type: ignore[attr-defined]
