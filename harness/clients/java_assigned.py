"""An `AssignedConsumer` on Kafka's Java client."""

from collections.abc import Mapping, Sequence
from typing import Any

import jpype

from harness.clients.in_process_jvm import duration, java_list
from harness.clients.interface import ClientError, ConsumerSettings, OnError, PartitionOffset
from harness.clients.java_consumer import CLOSE_TIMEOUT_S, consumer_without_group
from harness.clients.java_errors import translate_errors
from harness.clients.java_records import JavaRecord, partition
from harness.clients.records import ClientRecord
from harness.model.pipeline import TopicPartition
from harness.model.vocabulary import Isolation


class JavaAssignedConsumer:
    """An `AssignedConsumer`."""

    def __init__(self, settings: ConsumerSettings, on_error: OnError) -> None:
        extra = {"max.poll.records": settings.max_records, "fetch.max.wait.ms": 50}
        self._consumer = consumer_without_group(settings.bootstrap, settings.name, settings.isolation, extra)
        self._on_error = on_error
        self._topic_partitions: dict[TopicPartition, Any] = {}

    def assign(self, positions: Sequence[PartitionOffset]) -> None:
        self._topic_partitions = {
            (start.topic, start.partition): partition(start.topic, start.partition) for start in positions
        }
        with translate_errors():
            self._consumer.assign(java_list(list(self._topic_partitions.values())))
            for start in positions:
                self._consumer.seek(
                    self._topic_partitions[start.topic, start.partition], jpype.JLong(start.offset or 0)
                )

    def poll(self, max_records: int, timeout_s: float) -> list[ClientRecord]:
        """Return records. The limit is `max_records` of the settings and not the argument."""
        try:
            with translate_errors():
                return [JavaRecord(record) for record in self._consumer.poll(duration(timeout_s))]
        except ClientError as error:
            self._on_error(error)
            return []

    def read_positions(self) -> Mapping[TopicPartition, int]:
        with translate_errors():
            return {
                topic_partition: int(self._consumer.position(java))
                for topic_partition, java in self._topic_partitions.items()
            }

    def close(self) -> None:
        with translate_errors():
            self._consumer.close(duration(CLOSE_TIMEOUT_S))


def high_watermarks(
    bootstrap: str, name: str, topic_partitions: Sequence[TopicPartition], timeout_s: float
) -> dict[TopicPartition, int]:
    """Return the high watermarks. Raises `ClientError`.

    The consumer is read-uncommitted, because a read-committed consumer returns the last stable offsets.
    """
    partitions = {topic_partition: partition(*topic_partition) for topic_partition in topic_partitions}
    consumer = consumer_without_group(bootstrap, name, Isolation.READ_UNCOMMITTED)
    try:
        with translate_errors():
            ends = consumer.endOffsets(java_list(list(partitions.values())), duration(timeout_s))
            return {
                topic_partition: int(ends.get(java).longValue())
                for topic_partition, java in partitions.items()
            }
    finally:
        consumer.close(duration(0))
