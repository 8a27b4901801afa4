"""Consume records. confluent-kafka delivers errors as messages; `consume` separates them from the records."""

from collections.abc import Callable
from typing import Protocol, cast

from confluent_kafka import Consumer, KafkaError

from harness.model.expectation import InputRecord
from harness.model.vocabulary import OWN_HEADERS
from harness.record.naming import Headers


class ClientRecord(Protocol):
    """A message that is a record. It always has a topic, a partition and an offset, unlike confluent-kafka's `Message`.

    `timestamp` returns its kind (see confluent-kafka) and milliseconds since 1970.
    """

    def topic(self) -> str: ...
    def partition(self) -> int: ...
    def offset(self) -> int: ...
    def key(self) -> bytes | None: ...
    def value(self) -> bytes | None: ...
    def headers(self) -> Headers | None: ...
    def timestamp(self) -> tuple[int, int]: ...


def consume(
    consumer: Consumer,
    max_records: int,
    timeout_s: float,
    on_error: Callable[[KafkaError], None] | None = None,
    on_end: Callable[[tuple[str, int], int], None] | None = None,
) -> list[ClientRecord]:
    """Return up to `max_records` records, or fewer when the time is up.

    Args:
        on_error: called with each error.
        on_end: called with a topic partition and its end offset when that end is reached. It needs the setting
            `enable.partition.eof`.
    """
    records = []
    for message in consumer.consume(max_records, timeout=timeout_s):
        error = message.error()
        if error is None:
            records.append(cast(ClientRecord, message))
        elif error.code() == KafkaError._PARTITION_EOF:
            if on_end is not None:
                topic_partition = cast(str, message.topic()), cast(int, message.partition())
                on_end(topic_partition, cast(int, message.offset()))
        elif on_error is not None:
            on_error(error)
    return records


def as_input(message: ClientRecord) -> InputRecord:
    """Convert a record to the argument of a transform, without Fencepost's own headers."""
    headers = [
        (name, _bytes(content)) for name, content in message.headers() or () if name not in OWN_HEADERS
    ]
    return InputRecord(
        message.topic(),
        message.key(),
        message.value(),
        message.partition(),
        message.offset(),
        headers,
        message.timestamp()[1],
    )


def _bytes(content: str | bytes | None) -> bytes | None:
    return content.encode() if isinstance(content, str) else content
