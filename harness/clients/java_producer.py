"""Producers on Kafka's Java client."""

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jpype

from harness.clients.client_properties import java_properties
from harness.clients.interface import PLAIN_TIMEOUT_MS, OnDelivery, StartPosition
from harness.clients.java_errors import classify, translate_errors
from harness.clients.java_records import byte_array, offsets_of
from harness.clients.jvm import BYTE_ARRAY, COMMON, duration, java_class, java_list, java_map
from harness.record.naming import Headers


class JavaProducer:
    """A producer. What became of its records is asked of their futures, so that no thread of Java's calls Python."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        told = {
            **COMMON,
            **java_properties(),
            "acks": "all",
            "linger.ms": 2,
            "delivery.timeout.ms": PLAIN_TIMEOUT_MS,
            "key.serializer": f"{BYTE_ARRAY}Serializer",
            "value.serializer": f"{BYTE_ARRAY}Serializer",
            **settings,
        }
        self._producer = java_class("org.apache.kafka.clients.producer.KafkaProducer")(java_map(told))
        self._under_way: deque[tuple[Any, OnDelivery]] = deque()

    def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        told: OnDelivery,
        timestamp_ms: int | None = None,
        *,
        partition: int | None = None,
    ) -> bool:
        """Queue a record; blocks while the queue is full, as this client does."""
        named = java_list([])
        for name, content in headers:
            header = java_class("org.apache.kafka.common.header.internals.RecordHeader")
            named.add(header(name, byte_array(content)))
        record = java_class("org.apache.kafka.clients.producer.ProducerRecord")(
            topic,
            None if partition is None else java_class("java.lang.Integer").valueOf(partition),
            None if timestamp_ms is None else java_class("java.lang.Long").valueOf(jpype.JLong(timestamp_ms)),
            byte_array(key),
            byte_array(value),
            named,
        )
        with translate_errors():
            self._under_way.append((self._producer.send(record), told))
        return True

    def poll(self, timeout_s: float) -> None:
        """Let acknowledgements come in."""
        deadline = time.monotonic() + timeout_s
        while self._under_way:
            left_ms = max(0, round(1000 * (deadline - time.monotonic())))
            if not self._told(*self._under_way[0], left_ms):
                return
            self._under_way.popleft()

    def flush(self, timeout_s: float) -> int:
        """Wait for all acknowledgements; the client's own bound is its delivery time-out."""
        with translate_errors():
            self._producer.flush()
        self.poll(timeout_s)
        return len(self._under_way)

    def discard(self) -> None:
        """Give it up, with all that it still holds."""
        with translate_errors():
            self._producer.close(duration(0))

    def _told(self, future: Any, told: OnDelivery, timeout_ms: int) -> bool:
        """Tell what became of a record; False while it is under way."""
        try:
            metadata = future.get(timeout_ms, java_class("java.util.concurrent.TimeUnit").MILLISECONDS)
        except jpype.JException as error:
            if isinstance(error, java_class("java.util.concurrent.TimeoutException")):
                return False
            told(None, None, str(classify(error)))
        else:
            told(int(metadata.partition()), int(metadata.offset()) if metadata.hasOffset() else None, None)
        return True


class JavaTransactions(JavaProducer):
    """A producer of transactions. Its calls have one time-out, `max.block.ms`, whatever they are told."""

    def init(self, timeout_s: float) -> None:
        """InitProducerId."""
        self._call(self._producer.initTransactions)

    def begin(self) -> None:
        """Begin a transaction."""
        self._call(self._producer.beginTransaction)

    def send_offsets(self, positions: Sequence[StartPosition], membership: Any, timeout_s: float) -> None:
        """Add input positions to the transaction."""
        self._call(self._producer.sendOffsetsToTransaction, offsets_of(positions), membership)

    def commit(self, timeout_s: float) -> None:
        """Commit."""
        self._call(self._producer.commitTransaction)

    def abort(self, timeout_s: float) -> None:
        """End it without effect."""
        self._call(self._producer.abortTransaction)

    def _call(self, act: Callable[..., Any], *arguments: Any) -> None:
        with translate_errors():
            act(*arguments)
