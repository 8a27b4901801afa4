"""Kafka's Java client as a `Client`, through JPype, with its producers.

The JVM runs inside the worker's process, so journal, control line and faults are the same as for librdkafka.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import jpype

from harness.clients.client_properties import java_properties, jvm_properties
from harness.clients.in_process_jvm import (
    BYTE_ARRAY,
    COMMON,
    byte_array,
    classify,
    duration,
    java_class,
    java_list,
    java_map,
    offsets_of,
    start,
    translate_errors,
)
from harness.clients.interface import (
    PLAIN_TIMEOUT_MS,
    AssignmentListener,
    ClientRecord,
    ConsumerSettings,
    OnDelivery,
    OnError,
    PartitionOffset,
    ProducerSettings,
)
from harness.clients.java_consumer import (
    JavaAssignedConsumer,
    JavaConsumer,
    high_watermarks,
    last_stable_offset,
    read_partition,
)
from harness.model.vocabulary import Isolation
from harness.processes.specs import JvmSpec
from harness.record.naming import Headers


class JavaProducer:
    """A `ProducerClient`. It reads results from futures, so that no Java thread calls into Python."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        properties = {
            **COMMON,
            **java_properties(),
            "acks": "all",
            "linger.ms": 2,
            "delivery.timeout.ms": PLAIN_TIMEOUT_MS,
            "key.serializer": f"{BYTE_ARRAY}Serializer",
            "value.serializer": f"{BYTE_ARRAY}Serializer",
            **settings,
        }
        self._producer = java_class("org.apache.kafka.clients.producer.KafkaProducer")(java_map(properties))
        self._in_flight: deque[tuple[Any, OnDelivery]] = deque()

    def ask_for_metadata(self, topics: Sequence[str]) -> None:
        with translate_errors():
            for topic in topics:
                self._producer.partitionsFor(topic)

    def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        on_delivery: OnDelivery,
        timestamp_ms: int | None = None,
        *,
        partition: int | None = None,
    ) -> bool:
        """Queue a record. The Java client blocks while the queue is full, so this never returns False."""
        java_headers = java_list([])
        for name, content in headers:
            header = java_class("org.apache.kafka.common.header.internals.RecordHeader")
            java_headers.add(header(name, byte_array(content)))
        record = java_class("org.apache.kafka.clients.producer.ProducerRecord")(
            topic,
            None if partition is None else java_class("java.lang.Integer").valueOf(partition),
            None if timestamp_ms is None else java_class("java.lang.Long").valueOf(jpype.JLong(timestamp_ms)),
            byte_array(key),
            byte_array(value),
            java_headers,
        )
        with translate_errors():
            self._in_flight.append((self._producer.send(record), on_delivery))
        return True

    def poll(self, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while self._in_flight:
            left_ms = max(0, round(1000 * (deadline - time.monotonic())))
            if not self._report_delivery(*self._in_flight[0], left_ms):
                return
            self._in_flight.popleft()

    def flush(self, timeout_s: float) -> int:
        """Wait for all acknowledgements. This may last as long as the client's delivery time-out."""
        with translate_errors():
            self._producer.flush()
        self.poll(timeout_s)
        return len(self._in_flight)

    def discard(self) -> None:
        with translate_errors():
            self._producer.close(duration(0))

    def _report_delivery(self, future: Any, on_delivery: OnDelivery, timeout_ms: int) -> bool:
        """Call `on_delivery` with the result of a send. Return False if there is no result yet."""
        try:
            metadata = future.get(timeout_ms, java_class("java.util.concurrent.TimeUnit").MILLISECONDS)
        except jpype.JException as error:
            if isinstance(error, java_class("java.util.concurrent.TimeoutException")):
                return False
            on_delivery(None, None, str(classify(error)))
        else:
            on_delivery(
                int(metadata.partition()), int(metadata.offset()) if metadata.hasOffset() else None, None
            )
        return True


class JavaTransactions(JavaProducer):
    """A `TransactionalClient`. All calls time out after `max.block.ms`; their `timeout_s` has no effect."""

    def init(self, timeout_s: float) -> None:
        self._call(self._producer.initTransactions)

    def begin(self) -> None:
        self._call(self._producer.beginTransaction)

    def send_offsets(self, positions: Sequence[PartitionOffset], membership: Any, timeout_s: float) -> None:
        self._call(self._producer.sendOffsetsToTransaction, offsets_of(positions), membership)

    def commit(self, timeout_s: float) -> None:
        self._call(self._producer.commitTransaction)

    def abort(self, timeout_s: float) -> None:
        self._call(self._producer.abortTransaction)

    def _call(self, method: Callable[..., Any], *arguments: Any) -> None:
        with translate_errors():
            method(*arguments)


def _limits(settings: ProducerSettings) -> dict[str, object]:
    size = {} if settings.largest_bytes is None else {"max.request.size": settings.largest_bytes}
    shared = {"max.block.ms": round(1000 * settings.block_s), "compression.type": settings.compression}
    return {**shared, **size}


class JavaClient:
    """The client of `--client java`: kafka-clients, by default of the cluster's version."""

    name = "java"

    def __init__(self, spec: JvmSpec) -> None:
        start(spec)
        for name, value in jvm_properties().items():
            java_class("java.lang.System").setProperty(name, value)

    def consumer(
        self,
        settings: ConsumerSettings,
        topics: Sequence[str],
        listener: AssignmentListener,
        on_error: OnError,
    ) -> JavaConsumer:
        consumer = JavaConsumer(settings, on_error)
        consumer.subscribe(topics, listener)
        return consumer

    def unsubscribed_consumer(self, settings: ConsumerSettings) -> JavaConsumer:
        return JavaConsumer(settings.without_membership(), lambda error: None)

    def assigned_consumer(self, settings: ConsumerSettings, on_error: OnError) -> JavaAssignedConsumer:
        return JavaAssignedConsumer(settings, on_error)

    def end_offsets(
        self, bootstrap: str, name: str, topic_partitions: Sequence[tuple[str, int]], timeout_s: float
    ) -> dict[tuple[str, int], int]:
        return high_watermarks(bootstrap, name, topic_partitions, timeout_s)

    def read_partition(
        self,
        bootstrap: str,
        name: str,
        topic_partition: tuple[str, int],
        isolation: Isolation,
        timeout_s: float,
    ) -> list[ClientRecord]:
        return read_partition(bootstrap, name, topic_partition, isolation, timeout_s)

    @contextmanager
    def last_stable_offset(
        self, bootstrap: str, name: str, topic_partition: tuple[str, int]
    ) -> Iterator[Callable[[float], int]]:
        with translate_errors(), last_stable_offset(bootstrap, name, topic_partition) as read_offset:
            yield read_offset

    def producer(self, settings: ProducerSettings, transactional_id: str) -> JavaTransactions:
        producer = JavaTransactions(
            {
                "bootstrap.servers": settings.bootstrap,
                **_limits(settings),
                "transactional.id": transactional_id,
                "transaction.timeout.ms": settings.txn_timeout_ms,
            }
        )
        producer.ask_for_metadata(settings.topics)
        return producer

    def plain_producer(self, settings: ProducerSettings) -> JavaProducer:
        return JavaProducer(
            {
                "bootstrap.servers": settings.bootstrap,
                "enable.idempotence": settings.idempotent,
                "acks": settings.acks,
                **_limits(settings),
                **({} if settings.retries else {"retries": 0}),
            }
        )

    classify = staticmethod(classify)
    translate_errors = staticmethod(translate_errors)
