"""Producers on Kafka's Java client."""

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jpype

from harness.clients.client_properties import java_properties
from harness.clients.in_process_jvm import BYTE_ARRAY, COMMON, duration, java_class, java_list, java_map
from harness.clients.interface import PLAIN_TIMEOUT_MS, OnDelivery, PartitionOffset
from harness.clients.java_errors import classify, translate_errors
from harness.clients.java_records import byte_array, offsets_of
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
