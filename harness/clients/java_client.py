"""Kafka's Java client as a `Client`, through JPype.

The JVM runs inside the worker's process, so journal, control line and faults are the same as for librdkafka.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from harness.clients.client_properties import jvm_properties
from harness.clients.in_process_jvm import java_class, start
from harness.clients.interface import (
    AssignmentListener,
    ConsumerSettings,
    OnError,
    ProducerSettings,
)
from harness.clients.java_assigned import JavaAssignedConsumer, high_watermarks
from harness.clients.java_consumer import JavaConsumer, last_stable_offset, read_partition
from harness.clients.java_errors import classify, translate_errors
from harness.clients.java_producer import JavaProducer, JavaTransactions
from harness.clients.records import ClientRecord
from harness.model.vocabulary import Isolation
from harness.processes.specs import JvmSpec


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
