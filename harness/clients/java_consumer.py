"""Consumers on Kafka's Java client: in a group, with assigned partitions, and reads without a group."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import jpype

from harness.clients.client_properties import java_properties
from harness.clients.in_process_jvm import (
    BYTE_ARRAY,
    COMMON,
    JavaRecord,
    duration,
    java_class,
    java_list,
    java_map,
    offsets_of,
    partition,
    topic_partitions,
    translate_errors,
)
from harness.clients.interface import (
    AUTO_COMMIT_MS,
    HEARTBEAT_MS,
    SESSION_TIMEOUT_MS,
    AssignmentListener,
    ClientError,
    ClientRecord,
    ConsumerSettings,
    ErrorMeaning,
    GroupSettings,
    OnError,
    PartitionOffset,
)
from harness.model.pipeline import TopicPartition
from harness.model.vocabulary import Isolation

CLOSE_TIMEOUT_S = 10.0


_ASSIGNORS = {"eager": "RangeAssignor", "cooperative": "CooperativeStickyAssignor"}


def _group_properties(group: GroupSettings) -> dict[str, Any]:
    """Return the consumer properties that concern the group.

    With the consumer protocol (KIP-848) the brokers set the time-outs.
    """
    properties = {} if group.instance_id is None else {"group.instance.id": group.instance_id}
    if group.assigned_by_broker:
        return {**properties, "group.protocol": group.protocol}
    if group.assignor is not None:
        assignor = f"org.apache.kafka.clients.consumer.{_ASSIGNORS[group.assignor]}"
        properties["partition.assignment.strategy"] = assignor
    return {**properties, "session.timeout.ms": SESSION_TIMEOUT_MS, "heartbeat.interval.ms": HEARTBEAT_MS}


class JavaConsumer:
    """A `GroupConsumer`."""

    def __init__(self, settings: ConsumerSettings, on_error: OnError) -> None:
        properties = {
            **COMMON,
            **java_properties(),
            "bootstrap.servers": settings.bootstrap,
            "client.id": settings.name,
            "group.id": settings.group,
            "isolation.level": settings.isolation.value,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": settings.auto_commit,
            "auto.commit.interval.ms": AUTO_COMMIT_MS,
            **_group_properties(settings.group_settings),
            "fetch.max.wait.ms": 50,
            "max.poll.records": settings.max_records,
            "key.deserializer": f"{BYTE_ARRAY}Deserializer",
            "value.deserializer": f"{BYTE_ARRAY}Deserializer",
        }
        self._consumer = java_class("org.apache.kafka.clients.consumer.KafkaConsumer")(java_map(properties))
        self._on_error = on_error

    def subscribe(self, topics: Sequence[str], listener: AssignmentListener) -> None:
        @jpype.JImplements("org.apache.kafka.clients.consumer.ConsumerRebalanceListener")
        class Listener:
            @jpype.JOverride  # type: ignore[untyped-decorator]
            def onPartitionsAssigned(this, partitions: Any) -> None:  # noqa: N802, N805 - Java's names
                self._begin(listener.on_assigned(topic_partitions(partitions)))

            @jpype.JOverride  # type: ignore[untyped-decorator]
            def onPartitionsRevoked(this, partitions: Any) -> None:  # noqa: N802, N805
                listener.on_revoked(topic_partitions(partitions))

            @jpype.JOverride  # type: ignore[untyped-decorator]
            def onPartitionsLost(this, partitions: Any) -> None:  # noqa: N802, N805
                listener.on_revoked(topic_partitions(partitions))

        self._consumer.subscribe(java_list([jpype.JString(topic) for topic in topics]), Listener())

    def poll(self, max_records: int, timeout_s: float) -> list[ClientRecord]:
        """Return records. The limit is `max_records` of the settings and not the argument."""
        try:
            with translate_errors():
                return [JavaRecord(record) for record in self._consumer.poll(duration(timeout_s))]
        except ClientError as error:
            self._on_error(error)
            return []

    def membership(self) -> Any:
        return self._consumer.groupMetadata()

    def assigned(self) -> set[tuple[str, int]]:
        with translate_errors():
            return set(topic_partitions(self._consumer.assignment()))

    def committed(
        self, topic_partitions: Sequence[tuple[str, int]], timeout_s: float
    ) -> list[PartitionOffset]:
        if not topic_partitions:
            return []
        partitions = java_class("java.util.HashSet")(
            java_list([partition(*topic_partition) for topic_partition in topic_partitions])
        )
        with translate_errors():
            answer = self._consumer.committed(partitions, duration(timeout_s))
        offsets = {
            topic_partition: answer.get(partition(*topic_partition)) for topic_partition in topic_partitions
        }
        return [
            PartitionOffset(*topic_partition, None if offset is None else int(offset.offset()))
            for topic_partition, offset in offsets.items()
        ]

    def seek(self, position: PartitionOffset) -> None:
        topic_partition = partition(position.topic, position.partition)
        with translate_errors():
            if position.offset is None:
                self._consumer.seekToBeginning(java_list([topic_partition]))
            else:
                self._consumer.seek(topic_partition, jpype.JLong(position.offset))

    def commit(self, positions: Sequence[PartitionOffset]) -> None:
        with translate_errors():
            self._consumer.commitSync(offsets_of(positions))

    def close(self) -> None:
        with translate_errors():
            self._consumer.close(duration(CLOSE_TIMEOUT_S))

    def _begin(self, starts: Sequence[PartitionOffset] | None) -> None:
        for position in starts or ():
            self.seek(position)


def read_partition(
    bootstrap: str, name: str, topic_partition: tuple[str, int], isolation: Isolation, timeout_s: float
) -> list[ClientRecord]:
    """Return the records of a partition up to its current high watermark. Raises `ClientError`."""
    deadline = time.monotonic() + timeout_s
    java_partition = partition(*topic_partition)
    # A read-committed consumer would return the last stable offset as the end.
    end_reader = consumer_without_group(bootstrap, name, Isolation.READ_UNCOMMITTED)
    try:
        with translate_errors():
            end = int(end_reader.endOffsets(java_list([java_partition])).get(java_partition).longValue())
    finally:
        end_reader.close(duration(0))
    reader = consumer_without_group(bootstrap, name, isolation)
    try:
        with translate_errors():
            reader.assign(java_list([java_partition]))
            reader.seekToBeginning(java_list([java_partition]))
            records: list[ClientRecord] = []
            while (position := int(reader.position(java_partition))) < end:
                if time.monotonic() > deadline:
                    raise ClientError(
                        ErrorMeaning.RETRIABLE,
                        f"{topic_partition[0]}/{topic_partition[1]} was not read to its end, offset {end}, "
                        f"within {timeout_s:g} s: "
                        f"it was read up to offset {position}",
                    )
                records += [JavaRecord(record) for record in reader.poll(duration(0.2))]
        return [record for record in records if record.offset() < end]
    finally:
        reader.close(duration(0))


@contextmanager
def last_stable_offset(
    bootstrap: str, name: str, topic_partition: tuple[str, int]
) -> Iterator[Callable[[float], int]]:
    """Open a function that returns the last stable offset, which is the end offset of a read-committed consumer."""
    reader = consumer_without_group(bootstrap, name, Isolation.READ_COMMITTED)
    java_partition = partition(*topic_partition)

    def read_offset(timeout_s: float) -> int:
        ends = reader.endOffsets(java_list([java_partition]), duration(timeout_s))
        return int(ends.get(java_partition).longValue())

    try:
        yield read_offset
    finally:
        reader.close(duration(0))


def consumer_without_group(
    bootstrap: str, name: str, isolation: Isolation, extra: Mapping[str, Any] | None = None
) -> Any:
    """Return a KafkaConsumer without a group, with the `extra` properties."""
    properties = {
        **COMMON,
        **java_properties(),
        "bootstrap.servers": bootstrap,
        "client.id": f"{name}-reader",
        "isolation.level": isolation.value,
        "enable.auto.commit": False,
        "key.deserializer": f"{BYTE_ARRAY}Deserializer",
        "value.deserializer": f"{BYTE_ARRAY}Deserializer",
        **(extra or {}),
    }
    return java_class("org.apache.kafka.clients.consumer.KafkaConsumer")(java_map(properties))


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
