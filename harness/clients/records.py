"""What a consumer delivers: records, told apart from the errors that come in their place."""

from collections.abc import Callable
from typing import Protocol, cast

from confluent_kafka import Consumer, KafkaError

from harness.model.expectation import InputRecord
from harness.model.vocabulary import OWN_HEADERS
from harness.record.naming import Headers


class ClientRecord(Protocol):
    """A message that is a record: it has a place. (The library's own type leaves that open.)"""

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
    """Up to `most` records, as soon as they are there or the time is up; errors go to `on_error`.

    `on_end` is told of each partition, and the offset, at which there is nothing more to read for now.
    """
    records = []
    for message in consumer.consume(max_records, timeout=timeout_s):
        error = message.error()
        if error is None:
            records.append(cast(ClientRecord, message))
        elif error.code() == KafkaError._PARTITION_EOF:
            if on_end is not None:
                place = cast(str, message.topic()), cast(int, message.partition())
                on_end(place, cast(int, message.offset()))
        elif on_error is not None:
            on_error(error)
    return records


def as_input(message: ClientRecord) -> InputRecord:
    """A record as the transform is given it."""
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
