"""Convert records, partitions, offsets and bytes between Java and Python."""

from collections.abc import Sequence
from typing import Any

import jpype

from harness.clients.in_process_jvm import java_class, text
from harness.clients.interface import PartitionOffset
from harness.record.naming import Headers


def byte_array(content: str | bytes | None) -> Any:
    if content is None:
        return None
    return jpype.JArray(jpype.JByte)(content.encode() if isinstance(content, str) else content)


def plain_bytes(value: Any) -> bytes | None:
    return None if value is None else bytes(value)


class JavaRecord:
    """A `ClientRecord` made from a Java ConsumerRecord."""

    def __init__(self, record: Any) -> None:
        self._topic = text(record.topic())
        self._partition = int(record.partition())
        self._offset = int(record.offset())
        self._key = plain_bytes(record.key())
        self._value = plain_bytes(record.value())
        self._headers: Headers = [
            (text(header.key()), plain_bytes(header.value())) for header in record.headers()
        ]
        self._timestamp = (1, int(record.timestamp()))

    def topic(self) -> str:
        return self._topic

    def partition(self) -> int:
        return self._partition

    def offset(self) -> int:
        return self._offset

    def key(self) -> bytes | None:
        return self._key

    def value(self) -> bytes | None:
        return self._value

    def headers(self) -> Headers | None:
        return self._headers

    def timestamp(self) -> tuple[int, int]:
        return self._timestamp


def topic_partitions(partitions: Any) -> list[tuple[str, int]]:
    return [(text(java.topic()), int(java.partition())) for java in partitions]


def partition(topic: str, number: int) -> Any:
    return java_class("org.apache.kafka.common.TopicPartition")(topic, number)


def offsets_of(positions: Sequence[PartitionOffset]) -> Any:
    """Return the argument of a commit: a Map of TopicPartition to OffsetAndMetadata."""
    offsets = java_class("java.util.HashMap")()
    offset_and_metadata = java_class("org.apache.kafka.clients.consumer.OffsetAndMetadata")
    for p in positions:
        value = offset_and_metadata(jpype.JLong(p.offset), p.metadata)
        offsets.put(partition(p.topic, p.partition), value)
    return offsets
