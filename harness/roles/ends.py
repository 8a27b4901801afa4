"""Count the records that a group has not read, and write the sentinels at the ends of partitions."""

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as KafkaTopicPartition

from harness.clients import librdkafka
from harness.clients.interface import ProducerSettings
from harness.common.errors import WaitTimeout, in_words
from harness.model.pipeline import TopicPartition
from harness.model.vocabulary import SENTINEL_VALUE, VALUE_HEADER, Isolation
from harness.record.naming import Headers

PROBE_TIMEOUT_S = 10.0


def count_unread(bootstrap: str, positions: Mapping[TopicPartition, int]) -> int:
    """Count the visible records at or above these positions.

    The records are read, because a difference of offsets would count markers as well. Raises `WaitTimeout` if the end
    of a partition is not reached within `PROBE_TIMEOUT_S`.
    """
    if not positions:
        return 0
    while _CLOSING:
        _CLOSING.pop().join()
    settings = librdkafka.reader(bootstrap, "lag", Isolation.READ_COMMITTED) | {"enable.partition.eof": True}
    consumer = Consumer(settings)
    try:
        consumer.assign(
            [KafkaTopicPartition(*topic_partition, offset) for topic_partition, offset in positions.items()]
        )
        count = 0
        pending = set(positions)
        deadline = time.monotonic() + PROBE_TIMEOUT_S
        while pending:
            if time.monotonic() > deadline:
                raise WaitTimeout(
                    "the ends of all partitions",
                    PROBE_TIMEOUT_S,
                    [f"no end of {topic}/{number}" for topic, number in sorted(pending)],
                )
            for message in consumer.consume(1_000, timeout=0.1):
                error = message.error()
                if error is None:
                    count += 1
                elif error.code() == KafkaError._PARTITION_EOF:
                    pending.discard((cast(str, message.topic()), cast(int, message.partition())))
        return count
    finally:
        _CLOSING.append(threading.Thread(target=_close, args=(consumer,), name="close", daemon=True))
        _CLOSING[-1].start()


_CLOSING: list[threading.Thread] = []
"""Threads that close consumers. librdkafka often needs a second for this; only the next `count_unread` waits for it."""


def _close(consumer: Consumer) -> None:
    with suppress(KafkaException):  # the count is complete, so an error does not matter
        consumer.close()


def write_sentinels(bootstrap: str, topic_partitions: Sequence[TopicPartition], timeout_s: float) -> None:
    """Write a sentinel at the end of each partition. Raises `WaitTimeout`."""
    producer = Producer(librdkafka.idempotent_producer(ProducerSettings(bootstrap)))
    failed: list[str] = []

    def on_delivery(error: KafkaError | None, _: object) -> None:
        if error is not None:
            failed.append(librdkafka.describe_error(error))

    for topic, partition in topic_partitions:
        name = f"{SENTINEL_VALUE}:{topic}/{partition}"
        headers: Headers = [(VALUE_HEADER, name.encode())]
        producer.produce(topic, b"", partition=partition, headers=headers, on_delivery=on_delivery)
    remaining = producer.flush(timeout_s)
    if remaining or failed:
        raise WaitTimeout(
            "all sentinels to be written",
            timeout_s,
            f"{remaining} sentinels are still queued, and {len(failed)} failed; first error: {in_words(failed[:1])}",
        )
