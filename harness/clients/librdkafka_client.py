"""librdkafka, through confluent-kafka, as a `Client`."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from harness.clients import librdkafka
from harness.clients.error_table import librdkafka_meaning
from harness.clients.interface import (
    AssignmentListener,
    ClientError,
    ConsumerSettings,
    ErrorMeaning,
    OnDelivery,
    OnError,
    ProducerSettings,
    StartPosition,
)
from harness.clients.librdkafka_assigned import AssignedLibrdkafka, log_ends
from harness.clients.librdkafka_reads import last_stable_offset, whole_partition
from harness.clients.records import ClientRecord, consume
from harness.model.vocabulary import Isolation
from harness.record.naming import Headers

ANY_PARTITION = -1
"""The library's own word for a partition that it chooses."""


def meaning_of(error: KafkaError) -> ErrorMeaning:
    """What an error means; fencing outweighs what the library says beside it."""
    flags = (
        (ErrorMeaning.ABORTABLE, error.txn_requires_abort()),
        (ErrorMeaning.FATAL, error.fatal()),
        (ErrorMeaning.RETRIABLE, error.retriable()),
    )
    return librdkafka_meaning(error.code(), next((meaning for meaning, holds in flags if holds), None))


def client_error(error: KafkaError) -> ClientError:
    """The error as everyone knows it."""
    return ClientError(meaning_of(error), librdkafka.describe_error(error))


def classify(error: BaseException) -> ClientError | None:
    """A fatal error inside a call can surface as `SystemError` with the library's exception as its cause."""
    found = error if isinstance(error, KafkaException) else error.__cause__
    return client_error(librdkafka.error_of(found)) if isinstance(found, KafkaException) else None


@contextmanager
def translate_errors() -> Iterator[None]:
    """The library's exceptions as `ClientError`."""
    try:
        yield
    except (KafkaException, SystemError) as error:
        known = classify(error)
        if known is None:
            raise
        try:
            raise known from error
        finally:
            del known  # it holds this frame, and through it a producer that is to go away at once


class LibrdkafkaConsumer:
    """A member of a group."""

    def __init__(self, settings: ConsumerSettings, on_error: OnError) -> None:
        self._consumer = Consumer(librdkafka.member(settings))
        self._on_error = on_error

    def subscribe(self, topics: Sequence[str], listener: AssignmentListener) -> None:
        """Join the group."""

        def on_assigned(_: Consumer, partitions: list[TopicPartition]) -> None:
            starts = listener.on_assigned(_places(partitions))
            if starts is not None:
                self._begin(starts)

        def taken(_: Consumer, partitions: list[TopicPartition]) -> None:
            listener.on_revoked(_places(partitions))

        self._consumer.subscribe(list(topics), on_assign=on_assigned, on_revoke=taken, on_lost=taken)

    def poll(self, max_records: int, timeout_s: float) -> list[ClientRecord]:
        """Records; errors go to `on_error`."""
        return consume(
            self._consumer, max_records, timeout_s, lambda error: self._on_error(client_error(error))
        )

    def membership(self) -> Any:
        """The group's metadata."""
        return self._consumer.consumer_group_metadata()

    def assigned(self) -> set[tuple[str, int]]:
        """The partitions that it has now."""
        with translate_errors():
            return {(place.topic, place.partition) for place in self._consumer.assignment()}

    def committed(self, places: Sequence[tuple[str, int]], timeout_s: float) -> list[StartPosition]:
        """What the group has committed."""
        if not places:
            return []
        with translate_errors():
            told = self._consumer.committed([TopicPartition(*place) for place in places], timeout=timeout_s)
        for one in told:
            if one.error is not None:
                raise client_error(one.error)
        return [StartPosition(p.topic, p.partition, p.offset if p.offset >= 0 else None) for p in told]

    def seek(self, position: StartPosition) -> None:
        """Go there."""
        with translate_errors():
            self._consumer.seek(_place_of(position))

    def commit(self, positions: Sequence[StartPosition]) -> None:
        """Commit outside a transaction."""
        with translate_errors():
            self._consumer.commit(offsets=_partitions(positions), asynchronous=False)

    def close(self) -> None:
        """Leave the group."""
        self._consumer.close()

    def _begin(self, starts: Sequence[StartPosition]) -> None:
        """Take the partitions that have come, each from there."""
        taken = [_place_of(position) for position in starts]
        try:
            self._consumer.assign(taken)
        except KafkaException as error:
            if librdkafka.error_of(error).code() != KafkaError._STATE:
                raise
            self._consumer.incremental_assign(
                taken
            )  # these come to those that it has: only the library knows


def _places(partitions: Sequence[TopicPartition]) -> list[tuple[str, int]]:
    return [(one.topic, one.partition) for one in partitions]


def _place_of(position: StartPosition) -> TopicPartition:
    """A place to begin at."""
    offset = OFFSET_BEGINNING if position.offset is None else position.offset
    return TopicPartition(position.topic, position.partition, offset)


def _partitions(positions: Sequence[StartPosition]) -> list[TopicPartition]:
    return [TopicPartition(p.topic, p.partition, cast(int, p.offset), p.metadata) for p in positions]


class LibrdkafkaProducer:
    """A producer."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._producer = Producer(dict(settings))

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
        """Queue a record; False while the queue is full."""

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                told(message.partition(), message.offset(), None)
            else:
                told(None, None, librdkafka.describe_error(error))

        try:
            with translate_errors():
                self._producer.produce(
                    topic,
                    value,
                    key,
                    headers=headers,
                    on_delivery=delivered,
                    timestamp=timestamp_ms or 0,
                    partition=ANY_PARTITION if partition is None else partition,
                )
        except BufferError:
            return False
        return True

    def poll(self, timeout_s: float) -> None:
        """Let acknowledgements come in."""
        self._producer.poll(timeout_s)

    def flush(self, timeout_s: float) -> int:
        """Wait for all acknowledgements."""
        with translate_errors():
            return int(self._producer.flush(timeout_s))

    def discard(self) -> None:
        """Give it up, with all that it still holds."""
        self._producer.purge(in_queue=True, in_flight=True, blocking=False)
        del self._producer  # or it would still ask for a commit that was given up


class LibrdkafkaTransactions(LibrdkafkaProducer):
    """A producer of transactions."""

    def init(self, timeout_s: float) -> None:
        """InitProducerId."""
        self._call(self._producer.init_transactions, timeout_s)

    def begin(self) -> None:
        """Begin a transaction."""
        self._call(self._producer.begin_transaction)

    def send_offsets(self, positions: Sequence[StartPosition], membership: Any, timeout_s: float) -> None:
        """Add input positions to the transaction."""
        self._call(self._producer.send_offsets_to_transaction, _partitions(positions), membership, timeout_s)

    def commit(self, timeout_s: float) -> None:
        """Commit."""
        self._call(self._producer.commit_transaction, timeout_s)

    def abort(self, timeout_s: float) -> None:
        """End it without effect."""
        self._call(self._producer.abort_transaction, timeout_s)

    def _call(self, act: Callable[..., Any], *arguments: Any) -> None:
        with translate_errors():
            act(*arguments)


class LibrdkafkaClient:
    """The client that `--client librdkafka` means."""

    name = "librdkafka"

    def consumer(
        self,
        settings: ConsumerSettings,
        topics: Sequence[str],
        listener: AssignmentListener,
        on_error: OnError,
    ) -> LibrdkafkaConsumer:
        """A member of a group that subscribes to topics."""
        consumer = LibrdkafkaConsumer(settings, on_error)
        consumer.subscribe(topics, listener)
        return consumer

    def unsubscribed_consumer(self, settings: ConsumerSettings) -> LibrdkafkaConsumer:
        """One that never joins."""
        return LibrdkafkaConsumer(settings.without_membership(), lambda error: None)

    def assigned_consumer(self, settings: ConsumerSettings, on_error: OnError) -> AssignedLibrdkafka:
        """One that reads what it is told."""
        return AssignedLibrdkafka(settings, lambda error: on_error(client_error(error)), translate_errors)

    def end_offsets(
        self, bootstrap: str, name: str, places: Sequence[tuple[str, int]], timeout_s: float
    ) -> dict[tuple[str, int], int]:
        """Where the log of each partition ends now."""
        with translate_errors():
            return log_ends(bootstrap, name, places, timeout_s)

    def read_partition(
        self, bootstrap: str, name: str, place: tuple[str, int], isolation: Isolation, timeout_s: float
    ) -> list[ClientRecord]:
        """The records of a partition to where its log ends now."""
        with translate_errors():
            return whole_partition(bootstrap, name, place, isolation, timeout_s)

    @contextmanager
    def last_stable_offset(
        self, bootstrap: str, name: str, place: tuple[str, int]
    ) -> Iterator[Callable[[float], int]]:
        """Asks for the last stable offset of a partition."""
        with translate_errors(), last_stable_offset(bootstrap, name, place) as ask:
            yield ask

    def producer(self, settings: ProducerSettings, transactional_id: str) -> LibrdkafkaTransactions:
        """A producer of transactions, not yet initialised."""
        return LibrdkafkaTransactions(librdkafka.transactional_producer(settings, transactional_id))

    def plain_producer(self, settings: ProducerSettings) -> LibrdkafkaProducer:
        """A producer without transactions."""
        return LibrdkafkaProducer(librdkafka.plain_producer(settings))

    classify = staticmethod(classify)
    translate_errors = staticmethod(translate_errors)
