"""Between Java's objects and ours: records, partitions, offsets, bytes."""

from collections.abc import Sequence
from typing import Any

import jpype

from harness.clients.interface import StartPosition
from harness.clients.jvm import java_class, text
from harness.record.naming import Headers


def byte_array(content: str | bytes | None) -> Any:
    """A byte[] of it; None is a null."""
    if content is None:
        return None
    return jpype.JArray(jpype.JByte)(content.encode() if isinstance(content, str) else content)


def plain_bytes(value: Any) -> bytes | None:
    """The bytes of a byte[]; a null is None."""
    return None if value is None else bytes(value)


class JavaRecord:
    """A ConsumerRecord as everyone here knows records."""

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
        """Of the record."""
        return self._topic

    def partition(self) -> int:
        """Of the record."""
        return self._partition

    def offset(self) -> int:
        """Of the record."""
        return self._offset

    def key(self) -> bytes | None:
        """None: it has none."""
        return self._key

    def value(self) -> bytes | None:
        """None: it has none."""
        return self._value

    def headers(self) -> Headers | None:
        """In their order."""
        return self._headers

    def timestamp(self) -> tuple[int, int]:
        """Its kind, and milliseconds since 1970."""
        return self._timestamp


def places(partitions: Any) -> list[tuple[str, int]]:
    """Topic and number of each."""
    return [(text(one.topic()), int(one.partition())) for one in partitions]


def partition(topic: str, number: int) -> Any:
    """A TopicPartition."""
    return java_class("org.apache.kafka.common.TopicPartition")(topic, number)


def offsets_of(positions: Sequence[StartPosition]) -> Any:
    """What a commit is told: offset and metadata of each partition."""
    made = java_class("java.util.HashMap")()
    kind = java_class("org.apache.kafka.clients.consumer.OffsetAndMetadata")
    for p in positions:
        made.put(partition(p.topic, p.partition), kind(jpype.JLong(p.offset), p.metadata))
    return made
