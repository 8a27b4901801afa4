"""An `AssignedConsumer` on librdkafka."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager

from confluent_kafka import Consumer, KafkaError
from confluent_kafka import TopicPartition as KafkaTopicPartition

from harness.clients import librdkafka
from harness.clients.interface import ClientError, ConsumerSettings, ErrorMeaning, PartitionOffset
from harness.clients.records import ClientRecord, consume
from harness.model.pipeline import TopicPartition
from harness.model.vocabulary import Isolation


class LibrdkafkaAssignedConsumer:
    """An `AssignedConsumer`."""

    def __init__(
        self,
        settings: ConsumerSettings,
        on_error: Callable[[KafkaError], None],
        translate_errors: Callable[[], AbstractContextManager[None]],
    ) -> None:
        properties = librdkafka.reader(settings.bootstrap, settings.name, settings.isolation)
        self._consumer = Consumer(properties | {"enable.partition.eof": True})
        self._on_error = on_error
        self._translate_errors = translate_errors
        self._reached: dict[TopicPartition, int] = {}

    def assign(self, positions: Sequence[PartitionOffset]) -> None:
        self._reached = {(start.topic, start.partition): start.offset or 0 for start in positions}
        with self._translate_errors():
            self._consumer.assign(
                [
                    KafkaTopicPartition(*topic_partition, offset)
                    for topic_partition, offset in self._reached.items()
                ]
            )

    def poll(self, max_records: int, timeout_s: float) -> list[ClientRecord]:
        records = consume(self._consumer, max_records, timeout_s, self._on_error, self._note_position)
        for record in records:
            self._note_position((record.topic(), record.partition()), record.offset() + 1)
        return records

    def read_positions(self) -> Mapping[TopicPartition, int]:
        return self._reached

    def close(self) -> None:
        self._consumer.close()

    def _note_position(self, topic_partition: TopicPartition, offset: int) -> None:
        """Note the next offset to read of a partition. If markers follow the last record, `offset` is above them."""
        self._reached[topic_partition] = max(self._reached.get(topic_partition, 0), offset)


def high_watermarks(
    bootstrap: str, name: str, topic_partitions: Sequence[TopicPartition], timeout_s: float
) -> dict[TopicPartition, int]:
    """Return the high watermarks. Raises the library's exceptions, and `ClientError` when the time is up.

    The consumer is read-uncommitted, because a read-committed consumer gets the last stable offsets.
    """
    deadline = time.monotonic() + timeout_s
    consumer = Consumer(librdkafka.reader(bootstrap, name, Isolation.READ_UNCOMMITTED))
    try:
        ends: dict[TopicPartition, int] = {}
        for topic_partition in topic_partitions:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise ClientError(
                    ErrorMeaning.RETRIABLE,
                    f"only {len(ends)} of {len(topic_partitions)} partitions have returned their end offset "
                    f"within {timeout_s:g} s",
                )
            ends[topic_partition] = int(
                consumer.get_watermark_offsets(KafkaTopicPartition(*topic_partition), timeout=left_s)[1]
            )
        return ends
    finally:
        consumer.close()
