"""A consumer without a group, on librdkafka: it reads the partitions that it is told."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager

from confluent_kafka import Consumer, KafkaError, TopicPartition

from harness.clients import librdkafka
from harness.clients.interface import ClientError, ConsumerSettings, ErrorMeaning, StartPosition
from harness.clients.records import ClientRecord, consume
from harness.model.vocabulary import Isolation

Place = tuple[str, int]


class AssignedLibrdkafka:
    """An `AssignedConsumer`."""

    def __init__(
        self,
        settings: ConsumerSettings,
        on_error: Callable[[KafkaError], None],
        translate_errors: Callable[[], AbstractContextManager[None]],
    ) -> None:
        told = librdkafka.reader(settings.bootstrap, settings.name, settings.isolation)
        self._consumer = Consumer(told | {"enable.partition.eof": True})
        self._on_error = on_error
        self._translated = translate_errors
        self._reached: dict[Place, int] = {}

    def assign(self, positions: Sequence[StartPosition]) -> None:
        """Read these partitions from now on."""
        self._reached = {(one.topic, one.partition): one.offset or 0 for one in positions}
        with self._translated():
            self._consumer.assign([TopicPartition(*place, offset) for place, offset in self._reached.items()])

    def poll(self, max_records: int, timeout_s: float) -> list[ClientRecord]:
        """Records; errors go to `on_error`."""
        records = consume(self._consumer, max_records, timeout_s, self._on_error, self._ended)
        for record in records:
            self._ended((record.topic(), record.partition()), record.offset() + 1)
        return records

    def read_positions(self) -> Mapping[Place, int]:
        """How far each partition is read."""
        return self._reached

    def close(self) -> None:
        """Have no more to do with it."""
        self._consumer.close()

    def _ended(self, place: Place, offset: int) -> None:
        """A partition is read so far; the library says where there is nothing more for now."""
        self._reached[place] = max(self._reached.get(place, 0), offset)


def log_ends(bootstrap: str, name: str, places: Sequence[Place], timeout_s: float) -> dict[Place, int]:
    """High watermarks; a read-committed consumer would be told the last stable offsets. Raises the library's
    exceptions, and `ClientError` where the time is up.
    """
    deadline = time.monotonic() + timeout_s
    consumer = Consumer(librdkafka.reader(bootstrap, name, Isolation.READ_UNCOMMITTED))
    try:
        ends: dict[Place, int] = {}
        for place in places:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise ClientError(
                    ErrorMeaning.RETRIABLE,
                    f"the ends of {len(ends)} of {len(places)} logs are known after {timeout_s:g} s",
                )
            ends[place] = int(consumer.get_watermark_offsets(TopicPartition(*place), timeout=left_s)[1])
        return ends
    finally:
        consumer.close()
