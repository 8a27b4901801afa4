"""A final reader that is stopped says of each partition from where on it read, and how far it came."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson
import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from harness.clients import final_reader
from harness.clients.control import Control
from harness.clients.final_reader import FinalReader
from harness.history import SENTINEL_VALUE, VALUE_HEADER, Isolation
from harness.record.journal import Journal
from harness.record.naming import Headers
from workloads.model import StatedByTransform

PLACES = (("x", 0), ("y", 0), ("z", 0))
NOTHING = StatedByTransform(())


@dataclass
class Message:
    place: tuple[str, int]
    at: int
    name: str

    def error(self) -> None:
        return None

    def topic(self) -> str:
        return self.place[0]

    def partition(self) -> int:
        return self.place[1]

    def offset(self) -> int:
        return self.at

    def headers(self) -> Headers:
        return [(VALUE_HEADER, self.name.encode())]


class Cluster:
    """Gives what there is, then stops the reader. The log of x begins at 3; y has no leader, z is slow."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self._batches = [[Message(("x", 0), 5, "w:0:0"), Message(("x", 0), 7, f"{SENTINEL_VALUE}:x/0")]]
        self.closed = False

    def assign(self, places: Sequence[TopicPartition]) -> None:
        assert [(one.topic, one.partition) for one in places] == list(PLACES)

    def consume(self, most: int, timeout: float) -> list[Message]:
        if self._batches:
            return self._batches.pop()
        self._control.stopping = True
        return []

    def get_watermark_offsets(self, place: TopicPartition, timeout: float) -> tuple[int, int] | None:
        assert 0 < timeout <= final_reader.BEGINNINGS_TIMEOUT_S
        if place.topic == "y":
            raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
        return (3, 8) if place.topic == "x" else None

    def close(self) -> None:
        self.closed = True


def test_what_was_read_is_told_though_a_partition_has_no_leader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    control = Control(None)
    cluster = Cluster(control)
    monkeypatch.setattr(final_reader, "Consumer", lambda _: cluster)
    journal = Journal(tmp_path / "final.jsonl", "final", 0, {})
    FinalReader("nowhere:9092", PLACES, Isolation.READ_COMMITTED, journal, control, NOTHING).run()
    *_, poll, ends = map(orjson.loads, (tmp_path / "final.jsonl").read_bytes().splitlines())
    assert poll["records"] == {"x/0": [[5, "w:0:0"], [7, f"{SENTINEL_VALUE}:x/0"]]}
    assert ends["ends"] == {"x/0": {"first": 3, "next": 8, "read": 2, "sentinel": 7}}
    assert cluster.closed
