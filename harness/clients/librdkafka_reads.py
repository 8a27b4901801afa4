"""Read a partition up to its end with librdkafka. A pipeline restores its state from such a read."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from harness.clients import librdkafka
from harness.clients.interface import ClientError, ErrorMeaning
from harness.clients.records import ClientRecord, consume
from harness.model.vocabulary import Isolation

BATCH = 2_000


def read_partition(
    bootstrap: str, name: str, topic_partition: tuple[str, int], isolation: Isolation, timeout_s: float
) -> list[ClientRecord]:
    """Return the records of a partition up to its current high watermark.

    Raises the library's exceptions. Raises `ClientError` if the end is not reached in time, for example because a
    transaction is open.
    """
    deadline = time.monotonic() + timeout_s
    start, end = _watermarks(bootstrap, name, topic_partition, timeout_s)
    if start >= end:
        return []
    settings = librdkafka.reader(bootstrap, name, isolation) | {"enable.partition.eof": True}
    consumer = Consumer(settings)
    try:
        consumer.assign([TopicPartition(*topic_partition, OFFSET_BEGINNING)])
        records: list[ClientRecord] = []
        ends = {topic_partition: start}
        while ends[topic_partition] < end and not (records and records[-1].offset() >= end - 1):
            if time.monotonic() > deadline:
                raise ClientError(
                    ErrorMeaning.RETRIABLE,
                    f"{topic_partition[0]}/{topic_partition[1]} was not read to its end, offset {end}, "
                    f"within {timeout_s:g} s: "
                    f"it was read up to offset {ends[topic_partition]}",
                )
            records += consume(consumer, BATCH, 0.2, on_end=ends.__setitem__)
        return [record for record in records if record.offset() < end]
    finally:
        consumer.close()


def _watermarks(
    bootstrap: str, name: str, topic_partition: tuple[str, int], timeout_s: float
) -> tuple[int, int]:
    """Return the first offset and the high watermark.

    The consumer is read-uncommitted, because a read-committed consumer gets the last stable offset instead.
    """
    consumer = Consumer(librdkafka.reader(bootstrap, name, Isolation.READ_UNCOMMITTED))
    try:
        start, end = consumer.get_watermark_offsets(TopicPartition(*topic_partition), timeout=timeout_s)
        return int(start), int(end)
    finally:
        consumer.close()


@contextmanager
def last_stable_offset(
    bootstrap: str, name: str, topic_partition: tuple[str, int]
) -> Iterator[Callable[[float], int]]:
    """Open a function that returns the last stable offset, which is the end offset of a read-committed consumer."""
    consumer = Consumer(librdkafka.reader(bootstrap, name, Isolation.READ_COMMITTED))

    def read_offset(timeout_s: float) -> int:
        _, end = consumer.get_watermark_offsets(TopicPartition(*topic_partition), timeout=timeout_s)
        return int(end)

    try:
        yield read_offset
    finally:
        consumer.close()
