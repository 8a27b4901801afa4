"""Settings of librdkafka clients, and texts of their errors.

`socket.timeout.ms` is always set. If it is unset, a transactional producer of librdkafka raises it to nearly its
transaction time-out. Such a producer commits nothing for a minute after its coordinator has stopped, although the
cluster fails over in eight seconds.
"""

from typing import Any

from confluent_kafka import KafkaError, KafkaException

from harness.clients.client_properties import librdkafka_properties
from harness.clients.interface import (
    AUTO_COMMIT_MS,
    HEARTBEAT_MS,
    PLAIN_TIMEOUT_MS,
    SESSION_TIMEOUT_MS,
    ConsumerSettings,
    ProducerSettings,
)
from harness.model.vocabulary import Isolation

AUTO_COMMIT: dict[str, Any] = {
    "enable.auto.commit": True,
    "enable.auto.offset.store": True,
    "auto.commit.interval.ms": AUTO_COMMIT_MS,
}

ANY_PARTITION = -1
"""The partition of a record for which the partitioner chooses one."""
SOCKET_TIMEOUT_MS = 10_000
_COMMON: dict[str, Any] = {
    "socket.timeout.ms": SOCKET_TIMEOUT_MS,
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 500,
    "retry.backoff.ms": 50,
    "topic.metadata.refresh.interval.ms": 5_000,
    "log_level": 0,
}


def transactional_producer(settings: ProducerSettings, transactional_id: str) -> dict[str, Any]:
    """Return the settings of a transactional producer. They imply acks=all."""
    return {
        **_COMMON,
        **librdkafka_properties(),
        **_limits(settings),
        "bootstrap.servers": settings.bootstrap,
        "transactional.id": transactional_id,
        "transaction.timeout.ms": settings.txn_timeout_ms,
        "socket.timeout.ms": min(SOCKET_TIMEOUT_MS, settings.txn_timeout_ms - 100),
        "linger.ms": 2,
        "queue.buffering.max.messages": 200_000,
    }


def idempotent_producer(settings: ProducerSettings, partitioner: str | None = None) -> dict[str, Any]:
    """Return the settings of the harness's own producers, which write each record once or report an error.

    Args:
        partitioner: how a partition follows from a key; None: librdkafka's default, `consistent_random`. The Java
            client has another default.
    """
    return {
        **_COMMON,
        **librdkafka_properties(),
        **_limits(settings),
        "bootstrap.servers": settings.bootstrap,
        "enable.idempotence": True,
        "linger.ms": 5,
        "message.timeout.ms": 120_000,
        **({} if partitioner is None else {"partitioner": partitioner}),
    }


def plain_producer(settings: ProducerSettings) -> dict[str, Any]:
    """Return the settings of a producer without transactions."""
    return {
        **_COMMON,
        **librdkafka_properties(),
        **_limits(settings),
        "bootstrap.servers": settings.bootstrap,
        "enable.idempotence": settings.idempotent,
        "acks": settings.acks,
        "linger.ms": 2,
        "message.timeout.ms": PLAIN_TIMEOUT_MS,
        **({} if settings.retries else {"retries": 0}),
    }


def _limits(settings: ProducerSettings) -> dict[str, Any]:
    largest = settings.largest_bytes
    limits: dict[str, Any] = {} if largest is None else {"message.max.bytes": largest}
    if settings.batch_bytes is not None:
        limits["batch.size"] = settings.batch_bytes
    return limits | {"compression.type": settings.compression}


def member(settings: ConsumerSettings) -> dict[str, Any]:
    """Return the settings of a group member. With the consumer protocol (KIP-848) the brokers set the time-outs."""
    properties = group_consumer(settings.bootstrap, settings.group, settings.name, settings.isolation)
    group = settings.group_settings
    if group.assigned_by_broker:
        properties = {name: value for name, value in properties.items() if name not in _SET_BY_BROKER}
        properties["group.protocol"] = group.protocol
    elif group.assignor is not None:
        properties["partition.assignment.strategy"] = _ASSIGNORS[group.assignor]
    if group.instance_id is not None:
        properties["group.instance.id"] = group.instance_id
    return properties | (AUTO_COMMIT if settings.auto_commit else {})


_SET_BY_BROKER = frozenset({"session.timeout.ms", "heartbeat.interval.ms"})
_ASSIGNORS = {"eager": "range", "cooperative": "cooperative-sticky"}


def group_consumer(bootstrap: str, group: str, client: str, isolation: Isolation) -> dict[str, Any]:
    """Return the settings of a group member that commits nothing by itself."""
    return {
        **_COMMON,
        **librdkafka_properties(),
        "bootstrap.servers": bootstrap,
        "client.id": client,
        "group.id": group,
        "isolation.level": isolation.value,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "session.timeout.ms": SESSION_TIMEOUT_MS,
        "heartbeat.interval.ms": HEARTBEAT_MS,
        "fetch.wait.max.ms": 50,
        "fetch.error.backoff.ms": 50,
    }


def reader(bootstrap: str, client: str, isolation: Isolation) -> dict[str, Any]:
    """Return the settings of a consumer with assigned partitions.

    librdkafka requires a group name. The consumer never joins that group.
    """
    return {
        **group_consumer(bootstrap, f"fencepost-reader-{client}", client, isolation),
        "enable.partition.eof": False,
        "fetch.message.max.bytes": 4_194_304,
    }


def error_of(exception: KafkaException) -> KafkaError:
    """Return the KafkaError that the exception contains."""
    error: KafkaError = exception.args[0]
    return error


def describe_error(error: KafkaError) -> str:
    """Return name, flags and text of an error, for the journal."""
    flags = [
        flag
        for flag, is_set in (
            ("fatal", error.fatal()),
            ("abortable", error.txn_requires_abort()),
            ("retriable", error.retriable()),
        )
        if is_set
    ]
    return f"{error.name()}{' (' + ', '.join(flags) + ')' if flags else ''}: {error.str()}"
