"""Write the inputs of a bench: fill a topic in advance, or write into a topic at an even rate."""

import os
import time

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from benchmarks.exactly_once.outputs import stamped_value
from harness.clients import librdkafka
from harness.clients.interface import ProducerSettings
from harness.common.errors import EnvironmentFailure
from harness.model.vocabulary import Isolation

FILL_TIMEOUT_S = 120.0
FEED_TIMEOUT_S = 30.0
REQUEST_TIMEOUT_S = 10.0
VALUE_BYTES = 100
PARTITIONS = 12


def filler() -> bytes:
    """Random content for a value, which does not compress well."""
    return os.urandom(VALUE_BYTES // 2).hex().encode()


def fill_topic(bootstrap: str, topic: str, count: int) -> None:
    """Write `count` inputs as fast as possible. Raises `EnvironmentFailure` if they cannot be written."""
    producer = Producer(
        librdkafka.idempotent_producer(ProducerSettings(bootstrap))
        | {"linger.ms": 20, "queue.buffering.max.messages": 200_000}
    )
    value = filler()
    for n in range(count):
        while True:
            try:
                producer.produce(topic, value, b"%d" % n)
            except BufferError:
                producer.poll(0.1)
            else:
                break
        producer.poll(0)
    unwritten = producer.flush(FILL_TIMEOUT_S)
    if unwritten:
        raise EnvironmentFailure(f"{unwritten:,} inputs could not be written within {FILL_TIMEOUT_S:g} s")


def commit_end_offsets(bootstrap: str, group: str, topic: str, partitions: int) -> None:
    """Commit the end offsets of a topic for a group, so that the group reads only newer records.

    Raises `EnvironmentFailure` if they cannot be committed.
    """
    consumer = Consumer(librdkafka.group_consumer(bootstrap, group, "bench", Isolation.READ_COMMITTED))
    try:
        ends = []
        for n in range(partitions):
            _, end = consumer.get_watermark_offsets(TopicPartition(topic, n), timeout=REQUEST_TIMEOUT_S)
            ends.append(TopicPartition(topic, n, end))
        consumer.commit(offsets=ends, asynchronous=False)
    except KafkaException as error:
        words = librdkafka.describe_error(librdkafka.error_of(error))
        raise EnvironmentFailure(f"the offsets of {group} could not be set: {words}") from error
    finally:
        consumer.close()


class EvenFeed:
    """Creates inputs at an even rate. Each contains the time of its creation."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._producer = Producer(
            librdkafka.idempotent_producer(ProducerSettings(bootstrap)) | {"linger.ms": 0}
        )
        self._topic = topic
        self._fed = 0

    def feed(self, count: int, rate: float, measurement: int) -> None:
        """Create `count` inputs at `rate` per second, and wait for the brokers. Raises `EnvironmentFailure`."""
        value = filler()
        start_s = time.monotonic()
        sent = 0
        while sent < count:
            due = min(count, 1 + int((time.monotonic() - start_s) * rate))
            for n in range(sent, due):
                self._producer.produce(
                    self._topic, stamped_value(measurement, value), b"%d" % (self._fed + n)
                )
            sent = due
            self._producer.poll(max(0.0, min(0.05, start_s + sent / rate - time.monotonic())))
        self._fed += sent
        unwritten = self._producer.flush(FEED_TIMEOUT_S)
        if unwritten:
            raise EnvironmentFailure(f"{unwritten:,} inputs could not be written within {FEED_TIMEOUT_S:g} s")
