"""A partition read whole, by librdkafka: how a pipeline gets its own state back."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from harness.clients import librdkafka
from harness.clients.interface import ClientError, ErrorMeaning
from harness.clients.records import ClientRecord, consume
from harness.model.vocabulary import Isolation

BATCH = 2_000


def whole_partition(
    bootstrap: str, name: str, place: tuple[str, int], isolation: Isolation, timeout_s: float
) -> list[ClientRecord]:
    """Its records up to the high watermark of this moment. Raises the library's exceptions, and `ClientError` where
    a transaction stays open there.
    """
    deadline = time.monotonic() + timeout_s
    start, end = _edges(bootstrap, name, place, timeout_s)
    if start >= end:
        return []
    settings = librdkafka.reader(bootstrap, name, isolation) | {"enable.partition.eof": True}
    consumer = Consumer(settings)
    try:
        consumer.assign([TopicPartition(*place, OFFSET_BEGINNING)])
        records: list[ClientRecord] = []
        ends = {place: start}
        while ends[place] < end and not (records and records[-1].offset() >= end - 1):
            if time.monotonic() > deadline:
                raise ClientError(
                    ErrorMeaning.RETRIABLE,
                    f"{place[0]}/{place[1]} could be read up to offset {ends[place]} of {end} within {timeout_s:g} s",
                )
            records += consume(consumer, BATCH, 0.2, on_end=ends.__setitem__)
        return [record for record in records if record.offset() < end]
    finally:
        consumer.close()


def _edges(bootstrap: str, name: str, place: tuple[str, int], timeout_s: float) -> tuple[int, int]:
    """First offset and high watermark; a read-committed consumer would be told the last stable offset."""
    consumer = Consumer(librdkafka.reader(bootstrap, name, Isolation.READ_UNCOMMITTED))
    try:
        start, end = consumer.get_watermark_offsets(TopicPartition(*place), timeout=timeout_s)
        return int(start), int(end)
    finally:
        consumer.close()


@contextmanager
def last_stable_offset(bootstrap: str, name: str, place: tuple[str, int]) -> Iterator[Callable[[float], int]]:
    """Asks for the last stable offset: it is what a read-committed consumer is told to be the end."""
    consumer = Consumer(librdkafka.reader(bootstrap, name, Isolation.READ_COMMITTED))

    def ask(timeout_s: float) -> int:
        _, end = consumer.get_watermark_offsets(TopicPartition(*place), timeout=timeout_s)
        return int(end)

    try:
        yield ask
    finally:
        consumer.close()
