"""An `AssignedConsumer` on Kafka's Java client."""

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
        extra = {"max.poll.records": settings.max_records, "fetch.max.wait.ms": 50}
        self._consumer = consumer_without_group(settings.bootstrap, settings.name, settings.isolation, extra)
        self._on_error = on_error
        self._places: dict[Place, Any] = {}

    def assign(self, positions: Sequence[StartPosition]) -> None:
        self._places = {
            (start.topic, start.partition): partition(start.topic, start.partition) for start in positions
        }
        with translate_errors():
            self._consumer.assign(java_list(list(self._places.values())))
            for start in positions:
                self._consumer.seek(
                    self._places[start.topic, start.partition], jpype.JLong(start.offset or 0)
                )

    def poll(self, max_records: int, timeout_s: float) -> list[ClientRecord]:
        """Return records. The limit is `max_records` of the settings and not the argument."""
        try:
            with translate_errors():
                return [JavaRecord(record) for record in self._consumer.poll(duration(timeout_s))]
        except ClientError as error:
            self._on_error(error)
            return []

    def read_positions(self) -> Mapping[Place, int]:
        with translate_errors():
            return {place: int(self._consumer.position(java)) for place, java in self._places.items()}

    def close(self) -> None:
        with translate_errors():
            self._consumer.close(duration(CLOSE_TIMEOUT_S))


def log_ends(bootstrap: str, name: str, places: Sequence[Place], timeout_s: float) -> dict[Place, int]:
    """Return the high watermarks. Raises `ClientError`.

    The consumer reads uncommitted, because a read-committed one returns the last stable offsets.
    """
    partitions = {place: partition(*place) for place in places}
    consumer = consumer_without_group(bootstrap, name, Isolation.READ_UNCOMMITTED)
    try:
        with translate_errors():
            ends = consumer.endOffsets(java_list(list(partitions.values())), duration(timeout_s))
            return {place: int(ends.get(java).longValue()) for place, java in partitions.items()}
    finally:
        consumer.close(duration(0))
