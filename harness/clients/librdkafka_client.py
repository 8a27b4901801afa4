"""librdkafka as a `Client`, through confluent-kafka."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, cast

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka import TopicPartition as KafkaTopicPartition

from harness.clients import librdkafka
from harness.clients.error_table import librdkafka_meaning
from harness.clients.interface import (
    AssignmentListener,
    ClientError,
    ClientRecord,
    ConsumerSettings,
    ErrorMeaning,
    OnDelivery,
    OnError,
    PartitionOffset,
    ProducerSettings,
    consume,
)
from harness.model.pipeline import TopicPartition
from harness.model.vocabulary import Isolation
from harness.record.naming import Headers

BATCH = 2_000
"""librdkafka's value for "choose the partition by the key"."""


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
        consumer.assign([KafkaTopicPartition(*topic_partition, OFFSET_BEGINNING)])
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
        start, end = consumer.get_watermark_offsets(KafkaTopicPartition(*topic_partition), timeout=timeout_s)
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
        _, end = consumer.get_watermark_offsets(KafkaTopicPartition(*topic_partition), timeout=timeout_s)
        return int(end)

    try:
        yield read_offset
    finally:
        consumer.close()


class LibrdkafkaAssignedConsumer:
    """An `AssignedConsumer`."""

    def __init__(
        self,
        settings: ConsumerSettings,
        on_error: Callable[[KafkaError], None],
        translate_errors: Callable[[], AbstractContextManager[None]],
    ) -> None:
        properties = librdkafka.reader(settings.bootstrap, settings.name, settings.isolation)
        self._consumer = Consumer(properties | {"enable.partition.eof": True})
        self._on_error = on_error
        self._translate_errors = translate_errors
        self._reached: dict[TopicPartition, int] = {}

    def assign(self, positions: Sequence[PartitionOffset]) -> None:
        self._reached = {(start.topic, start.partition): start.offset or 0 for start in positions}
        with self._translate_errors():
            self._consumer.assign(
                [
                    KafkaTopicPartition(*topic_partition, offset)
                    for topic_partition, offset in self._reached.items()
                ]
            )

    def poll(self, max_records: int, timeout_s: float) -> list[ClientRecord]:
        records = consume(self._consumer, max_records, timeout_s, self._on_error, self._note_position)
        for record in records:
            self._note_position((record.topic(), record.partition()), record.offset() + 1)
        return records

    def read_positions(self) -> Mapping[TopicPartition, int]:
        return self._reached

    def close(self) -> None:
        self._consumer.close()

    def _note_position(self, topic_partition: TopicPartition, offset: int) -> None:
        """Note the next offset to read of a partition. If markers follow the last record, `offset` is above them."""
        self._reached[topic_partition] = max(self._reached.get(topic_partition, 0), offset)


def high_watermarks(
    bootstrap: str, name: str, topic_partitions: Sequence[TopicPartition], timeout_s: float
) -> dict[TopicPartition, int]:
    """Return the high watermarks. Raises the library's exceptions, and `ClientError` when the time is up.

    The consumer is read-uncommitted, because a read-committed consumer gets the last stable offsets.
    """
    deadline = time.monotonic() + timeout_s
    consumer = Consumer(librdkafka.reader(bootstrap, name, Isolation.READ_UNCOMMITTED))
    try:
        ends: dict[TopicPartition, int] = {}
        for topic_partition in topic_partitions:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise ClientError(
                    ErrorMeaning.RETRIABLE,
                    f"only {len(ends)} of {len(topic_partitions)} partitions have returned their end offset "
                    f"within {timeout_s:g} s",
                )
            ends[topic_partition] = int(
                consumer.get_watermark_offsets(KafkaTopicPartition(*topic_partition), timeout=left_s)[1]
            )
        return ends
    finally:
        consumer.close()


def meaning_of(error: KafkaError) -> ErrorMeaning:
    flags = (
        (ErrorMeaning.ABORTABLE, error.txn_requires_abort()),
        (ErrorMeaning.FATAL, error.fatal()),
        (ErrorMeaning.RETRIABLE, error.retriable()),
    )
    return librdkafka_meaning(error.code(), next((meaning for meaning, is_set in flags if is_set), None))


def client_error(error: KafkaError) -> ClientError:
    return ClientError(meaning_of(error), librdkafka.describe_error(error))


def classify(error: BaseException) -> ClientError | None:
    """Translate an exception of the library. Return None for any other exception.

    A fatal error inside a call can surface as `SystemError` with the library's exception as its cause.
    """
    cause = error if isinstance(error, KafkaException) else error.__cause__
    return client_error(librdkafka.error_of(cause)) if isinstance(cause, KafkaException) else None


@contextmanager
def translate_errors() -> Iterator[None]:
    """Inside a `with` block, translate the library's exceptions into `ClientError`."""
    try:
        yield
    except (KafkaException, SystemError) as error:
        translated = classify(error)
        if translated is None:
            raise
        try:
            raise translated from error
        finally:
            del translated  # its traceback refers to this frame, which would keep a discarded producer alive


class LibrdkafkaConsumer:
    """A `GroupConsumer`."""

    def __init__(self, settings: ConsumerSettings, on_error: OnError) -> None:
        self._consumer = Consumer(librdkafka.member(settings))
        self._on_error = on_error

    def subscribe(self, topics: Sequence[str], listener: AssignmentListener) -> None:
        def on_assigned(_: Consumer, partitions: list[KafkaTopicPartition]) -> None:
            starts = listener.on_assigned(_topic_partitions(partitions))
            if starts is not None:
                self._begin(starts)

        def on_revoked(_: Consumer, partitions: list[KafkaTopicPartition]) -> None:
            listener.on_revoked(_topic_partitions(partitions))

        self._consumer.subscribe(
            list(topics), on_assign=on_assigned, on_revoke=on_revoked, on_lost=on_revoked
        )

    def poll(self, max_records: int, timeout_s: float) -> list[ClientRecord]:
        return consume(
            self._consumer, max_records, timeout_s, lambda error: self._on_error(client_error(error))
        )

    def membership(self) -> Any:
        return self._consumer.consumer_group_metadata()

    def assigned(self) -> set[tuple[str, int]]:
        with translate_errors():
            return {
                (topic_partition.topic, topic_partition.partition)
                for topic_partition in self._consumer.assignment()
            }

    def committed(
        self, topic_partitions: Sequence[tuple[str, int]], timeout_s: float
    ) -> list[PartitionOffset]:
        if not topic_partitions:
            return []
        with translate_errors():
            answers = self._consumer.committed(
                [KafkaTopicPartition(*topic_partition) for topic_partition in topic_partitions],
                timeout=timeout_s,
            )
        for answer in answers:
            if answer.error is not None:
                raise client_error(answer.error)
        return [PartitionOffset(p.topic, p.partition, p.offset if p.offset >= 0 else None) for p in answers]

    def seek(self, position: PartitionOffset) -> None:
        with translate_errors():
            self._consumer.seek(_as_topic_partition(position))

    def commit(self, positions: Sequence[PartitionOffset]) -> None:
        with translate_errors():
            self._consumer.commit(offsets=_partitions(positions), asynchronous=False)

    def close(self) -> None:
        self._consumer.close()

    def _begin(self, starts: Sequence[PartitionOffset]) -> None:
        partitions = [_as_topic_partition(position) for position in starts]
        try:
            self._consumer.assign(partitions)
        except KafkaException as error:
            if librdkafka.error_of(error).code() != KafkaError._STATE:
                raise
            # In a cooperative rebalance the partitions are added to the assignment. Only this error shows that kind.
            self._consumer.incremental_assign(partitions)


def _topic_partitions(partitions: Sequence[KafkaTopicPartition]) -> list[tuple[str, int]]:
    return [(partition.topic, partition.partition) for partition in partitions]


def _as_topic_partition(position: PartitionOffset) -> KafkaTopicPartition:
    offset = OFFSET_BEGINNING if position.offset is None else position.offset
    return KafkaTopicPartition(position.topic, position.partition, offset)


def _partitions(positions: Sequence[PartitionOffset]) -> list[KafkaTopicPartition]:
    return [KafkaTopicPartition(p.topic, p.partition, cast(int, p.offset), p.metadata) for p in positions]


class LibrdkafkaProducer:
    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._producer = Producer(dict(settings))

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
        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                on_delivery(message.partition(), message.offset(), None)
            else:
                on_delivery(None, None, librdkafka.describe_error(error))

        try:
            with translate_errors():
                self._producer.produce(
                    topic,
                    value,
                    key,
                    headers=headers,
                    on_delivery=delivered,
                    timestamp=timestamp_ms or 0,
                    partition=librdkafka.ANY_PARTITION if partition is None else partition,
                )
        except BufferError:
            return False
        return True

    def ask_for_metadata(self, topics: Sequence[str], timeout_s: float) -> None:
        with translate_errors():
            for topic in topics:
                self._producer.list_topics(topic, timeout_s)

    def poll(self, timeout_s: float) -> None:
        self._producer.poll(timeout_s)

    def flush(self, timeout_s: float) -> int:
        with translate_errors():
            return int(self._producer.flush(timeout_s))

    def discard(self) -> None:
        self._producer.purge(in_queue=True, in_flight=True, blocking=False)
        del self._producer  # otherwise its thread could still send the EndTxn of an abandoned commit


class LibrdkafkaTransactions(LibrdkafkaProducer):
    """A `TransactionalClient`."""

    def init(self, timeout_s: float) -> None:
        self._call(self._producer.init_transactions, timeout_s)

    def begin(self) -> None:
        self._call(self._producer.begin_transaction)

    def send_offsets(self, positions: Sequence[PartitionOffset], membership: Any, timeout_s: float) -> None:
        self._call(self._producer.send_offsets_to_transaction, _partitions(positions), membership, timeout_s)

    def commit(self, timeout_s: float) -> None:
        self._call(self._producer.commit_transaction, timeout_s)

    def abort(self, timeout_s: float) -> None:
        self._call(self._producer.abort_transaction, timeout_s)

    def _call(self, method: Callable[..., Any], *arguments: Any) -> None:
        with translate_errors():
            method(*arguments)


class LibrdkafkaClient:
    """The client of `--client librdkafka`."""

    name = "librdkafka"

    def consumer(
        self,
        settings: ConsumerSettings,
        topics: Sequence[str],
        listener: AssignmentListener,
        on_error: OnError,
    ) -> LibrdkafkaConsumer:
        consumer = LibrdkafkaConsumer(settings, on_error)
        consumer.subscribe(topics, listener)
        return consumer

    def unsubscribed_consumer(self, settings: ConsumerSettings) -> LibrdkafkaConsumer:
        return LibrdkafkaConsumer(settings.without_membership(), lambda error: None)

    def assigned_consumer(self, settings: ConsumerSettings, on_error: OnError) -> LibrdkafkaAssignedConsumer:
        return LibrdkafkaAssignedConsumer(
            settings, lambda error: on_error(client_error(error)), translate_errors
        )

    def end_offsets(
        self, bootstrap: str, name: str, topic_partitions: Sequence[tuple[str, int]], timeout_s: float
    ) -> dict[tuple[str, int], int]:
        with translate_errors():
            return high_watermarks(bootstrap, name, topic_partitions, timeout_s)

    def read_partition(
        self,
        bootstrap: str,
        name: str,
        topic_partition: tuple[str, int],
        isolation: Isolation,
        timeout_s: float,
    ) -> list[ClientRecord]:
        with translate_errors():
            return read_partition(bootstrap, name, topic_partition, isolation, timeout_s)

    @contextmanager
    def last_stable_offset(
        self, bootstrap: str, name: str, topic_partition: tuple[str, int]
    ) -> Iterator[Callable[[float], int]]:
        with translate_errors(), last_stable_offset(bootstrap, name, topic_partition) as read_offset:
            yield read_offset

    def producer(self, settings: ProducerSettings, transactional_id: str) -> LibrdkafkaTransactions:
        producer = LibrdkafkaTransactions(librdkafka.transactional_producer(settings, transactional_id))
        producer.ask_for_metadata(settings.topics, settings.block_s)
        return producer

    def plain_producer(self, settings: ProducerSettings) -> LibrdkafkaProducer:
        return LibrdkafkaProducer(librdkafka.plain_producer(settings))

    classify = staticmethod(classify)
    translate_errors = staticmethod(translate_errors)
