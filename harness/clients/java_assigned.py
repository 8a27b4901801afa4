"""A consumer without a group, on Kafka's Java client: it reads the partitions that it is told."""

from collections.abc import Mapping, Sequence
from typing import Any

import jpype

from harness.clients.interface import ClientError, ConsumerSettings, OnError, StartPosition
from harness.clients.java_consumer import CLOSE_TIMEOUT_S, consumer_without_group
from harness.clients.java_errors import translate_errors
from harness.clients.java_records import JavaRecord, partition
from harness.clients.jvm import duration, java_list
from harness.clients.records import ClientRecord
from harness.model.vocabulary import Isolation

Place = tuple[str, int]


class AssignedJava:
    """An `AssignedConsumer`."""

    def __init__(self, settings: ConsumerSettings, on_error: OnError) -> None:
        more = {"max.poll.records": settings.max_records, "fetch.max.wait.ms": 50}
        self._consumer = consumer_without_group(settings.bootstrap, settings.name, settings.isolation, more)
        self._on_error = on_error
        self._places: dict[Place, Any] = {}

    def assign(self, positions: Sequence[StartPosition]) -> None:
        """Read these partitions from now on."""
        self._places = {(one.topic, one.partition): partition(one.topic, one.partition) for one in positions}
        with translate_errors():
            self._consumer.assign(java_list(list(self._places.values())))
            for one in positions:
                self._consumer.seek(self._places[one.topic, one.partition], jpype.JLong(one.offset or 0))

    def poll(self, max_records: int, timeout_s: float) -> list[ClientRecord]:
        """Records, at most as many as its settings say; errors go to `on_error`."""
        try:
            with translate_errors():
                return [JavaRecord(record) for record in self._consumer.poll(duration(timeout_s))]
        except ClientError as error:
            self._on_error(error)
            return []

    def read_positions(self) -> Mapping[Place, int]:
        """How far each partition is read."""
        with translate_errors():
            return {place: int(self._consumer.position(where)) for place, where in self._places.items()}

    def close(self) -> None:
        """Have no more to do with it."""
        with translate_errors():
            self._consumer.close(duration(CLOSE_TIMEOUT_S))


def log_ends(bootstrap: str, name: str, places: Sequence[Place], timeout_s: float) -> dict[Place, int]:
    """High watermarks; a read-committed consumer would be told the last stable offsets. Raises `ClientError`."""
    wanted = {place: partition(*place) for place in places}
    asking = consumer_without_group(bootstrap, name, Isolation.READ_UNCOMMITTED)
    try:
        with translate_errors():
            told = asking.endOffsets(java_list(list(wanted.values())), duration(timeout_s))
            return {place: int(told.get(where).longValue()) for place, where in wanted.items()}
    finally:
        asking.close(duration(0))
