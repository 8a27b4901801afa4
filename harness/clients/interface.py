"""The interface of a Kafka client library. The loop of a worker is the same code on every client.

A client translates the exceptions of its library into `ClientError`. No other module depends on the library.

A `topic_partition` is a pair of topic and partition number. Every `timeout_s` is in seconds.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Protocol, cast

from confluent_kafka import Consumer, KafkaError

from harness.model.expectation import InputRecord
from harness.model.vocabulary import OWN_HEADERS, Isolation
from harness.record.naming import Headers

TRANSACTION_TIMEOUT_MS = 30_000
"""Longer than the pause that makes a zombie, so that fencing ends the zombie's transaction, and not this time-out."""
SESSION_TIMEOUT_MS = 2_000
HEARTBEAT_MS = 300
"""Heartbeat interval of a group member. The brokers use the same value for the consumer protocol (KIP-848)."""
PLAIN_TIMEOUT_MS = 40_000
"""How long a client tries to send a record without a transaction. A failover takes eight seconds."""
RETRY_S = 0.2
"""How long a worker waits before it repeats a request that a broker or a database could not answer."""
AUTO_COMMIT_MS = 500
"""The interval of automatic offset commits (`ConsumerSettings.auto_commit`)."""


class ClientRecord(Protocol):
    """A message that is a record. It always has a topic, a partition and an offset, unlike confluent-kafka's `Message`.

    `timestamp` returns its kind (see confluent-kafka) and milliseconds since 1970.
    """

    def topic(self) -> str:
        """Return its topic."""
        ...

    def partition(self) -> int:
        """Return its partition number."""
        ...

    def offset(self) -> int:
        """Return its offset."""
        ...

    def key(self) -> bytes | None:
        """Return its key."""
        ...

    def value(self) -> bytes | None:
        """Return its value."""
        ...

    def headers(self) -> Headers | None:
        """Return its headers. None: it has none."""
        ...

    def timestamp(self) -> tuple[int, int]:
        """Return the kind of its time stamp, and the time stamp."""
        ...


def consume(
    consumer: Consumer,
    max_records: int,
    timeout_s: float,
    on_error: Callable[[KafkaError], None] | None = None,
    on_end: Callable[[tuple[str, int], int], None] | None = None,
) -> list[ClientRecord]:
    """Return up to `max_records` records, or fewer when the time is up.

    Args:
        on_error: called with each error.
        on_end: called with a topic partition and its end offset when that end is reached. It needs the setting
            `enable.partition.eof`.
    """
    records = []
    for message in consumer.consume(max_records, timeout=timeout_s):
        error = message.error()
        if error is None:
            records.append(cast(ClientRecord, message))
        elif error.code() == KafkaError._PARTITION_EOF:
            if on_end is not None:
                topic_partition = cast(str, message.topic()), cast(int, message.partition())
                on_end(topic_partition, cast(int, message.offset()))
        elif on_error is not None:
            on_error(error)
    return records


def as_input(message: ClientRecord) -> InputRecord:
    """Convert a record to the argument of a transform, without Fencepost's own headers."""
    headers = [
        (name, _bytes(content)) for name, content in message.headers() or () if name not in OWN_HEADERS
    ]
    return InputRecord(
        message.topic(),
        message.key(),
        message.value(),
        message.partition(),
        message.offset(),
        headers,
        message.timestamp()[1],
    )


def _bytes(content: str | bytes | None) -> bytes | None:
    return content.encode() if isinstance(content, str) else content


class ErrorMeaning(StrEnum):
    """The meaning of a client's error, for the call and for the client."""

    RETRIABLE = "retriable"  # the same call may succeed
    ABORTABLE = "abortable"  # the transaction must be aborted; then the producer can begin another one
    FATAL = "fatal"  # the producer or consumer can no longer be used
    FENCED = "fenced"  # another producer or member has its id, or its transaction timed out; also fatal
    UNKNOWN = "unknown"  # the call may have taken effect


class ClientError(Exception):
    """An error of a client library. The message is the library's own text."""

    def __init__(self, meaning: ErrorMeaning, message: str) -> None:
        super().__init__(message)
        self.meaning = meaning

    @property
    def ends_client(self) -> bool:
        """Return whether a new producer or consumer is needed."""
        return self.meaning in (ErrorMeaning.FATAL, ErrorMeaning.FENCED)


@dataclass(frozen=True)
class PartitionOffset:
    """An offset in a partition: where to start reading, or what to commit."""

    topic: str
    partition: int
    offset: int | None  # None: no offset is known, so start at the beginning
    metadata: str = ""  # of a commit


@dataclass(frozen=True)
class GroupSettings:
    """The settings with which a consumer joins its group."""

    protocol: str = "classic"  # or "consumer" (KIP-848)
    assignor: str | None = None  # classic protocol only: eager or cooperative; None: the client's default
    instance_id: str | None = None  # of a static member (KIP-345); its replacement has the same id

    @property
    def assigned_by_broker(self) -> bool:
        """Return whether the broker sets the assignor, the session time-out and the heartbeat interval."""
        return self.protocol == "consumer"


DEFAULT_GROUP = GroupSettings()


@dataclass(frozen=True)
class ConsumerSettings:
    """Settings of a consumer."""

    bootstrap: str
    group: str
    name: str
    isolation: Isolation
    max_records: int = 500  # of one poll
    auto_commit: bool = False  # the client commits delivered offsets by itself, at intervals
    group_settings: GroupSettings = DEFAULT_GROUP

    def without_membership(self) -> "ConsumerSettings":
        """Return settings for a consumer that never joins the group.

        They have no instance id, because that id belongs to the member that has joined with it.
        """
        return replace(self, group_settings=DEFAULT_GROUP)


class AssignmentListener(Protocol):
    """Receives changes of a member's assignment. The consumer calls it from within `poll`."""

    def on_assigned(self, topic_partitions: Sequence[tuple[str, int]]) -> Sequence[PartitionOffset] | None:
        """Handle new partitions. Return the start offset of each, or None to let the client choose."""
        ...

    def on_revoked(self, topic_partitions: Sequence[tuple[str, int]]) -> None:
        """Handle partitions that were revoked or lost."""
        ...


OnError = Callable[[ClientError], None]
OnDelivery = Callable[[int | None, int | None, str | None], None]
"""Called once per record with its partition, its offset and an error text.

If the record was acknowledged, the error is None. The offset is None if the broker did not send it.
"""


class GroupConsumer(Protocol):
    """A member of a consumer group. It commits nothing by itself, unless `auto_commit` is set."""

    def poll(self, max_records: int, timeout_s: float) -> list[ClientRecord]:
        """Return up to `max_records` records, as soon as there are any. Errors go to the consumer's `on_error`."""
        ...

    def membership(self) -> Any:
        """Return the group metadata for `TransactionalClient.send_offsets` (KIP-447)."""
        ...

    def assigned(self) -> set[tuple[str, int]]:
        """Return the partitions that are assigned to the consumer now."""
        ...

    def committed(
        self, topic_partitions: Sequence[tuple[str, int]], timeout_s: float
    ) -> list[PartitionOffset]:
        """Return the group's committed offsets. Raises `ClientError`."""
        ...

    def seek(self, position: PartitionOffset) -> None:
        """Continue at this position. Raises `ClientError`."""
        ...

    def commit(self, positions: Sequence[PartitionOffset]) -> None:
        """Commit outside a transaction, and wait for the response. Raises `ClientError`."""
        ...

    def close(self) -> None:
        """Leave the group."""
        ...


class AssignedConsumer(Protocol):
    """A consumer without a group. It reads the partitions that the caller assigns."""

    def assign(self, positions: Sequence[PartitionOffset]) -> None:
        """Replace the assignment: read these partitions from their offsets. Raises `ClientError`."""
        ...

    def poll(self, max_records: int, timeout_s: float) -> list[ClientRecord]:
        """Return up to `max_records` records, as soon as there are any. Errors go to the consumer's `on_error`."""
        ...

    def read_positions(self) -> Mapping[tuple[str, int], int]:
        """Return, for each assigned partition, the next offset to read. Raises `ClientError`.

        Markers and aborted records are never delivered. So after the last record, this offset is above them as well.
        """
        ...

    def close(self) -> None:
        """Release the consumer."""
        ...


@dataclass(frozen=True)
class ProducerSettings:
    """Settings of a producer. A transactional producer is always idempotent and has acks=all."""

    bootstrap: str
    idempotent: bool = True  # if a retry sends a record twice, the broker drops the second copy
    retries: bool = True  # the client sends a record again if it gets no acknowledgement
    acks: str = "all"  # "all": all in-sync replicas must have the record; "1": only the leader
    largest_bytes: int | None = None  # the client refuses a larger record
    batch_bytes: int | None = None  # the largest batch of several records; None: the client's default
    compression: str = "none"  # of batches
    # The coordinator aborts a transaction that is open for longer.
    txn_timeout_ms: int = TRANSACTION_TIMEOUT_MS
    topics: tuple[str, ...] = ()  # a new producer first asks for their metadata, so that no send waits for it
    block_s: float = 10.0  # only the Java client: how long each call may block (`max.block.ms`)


class ProducerClient(Protocol):
    """A producer. Each call raises `ClientError`."""

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
        """Queue a record. Return False if the queue is full.

        Args:
            timestamp_ms: the record's timestamp, above 0; None: the time of the call.
            partition: the target partition; None: the client chooses it by the key.
        """
        ...

    def poll(self, timeout_s: float) -> None:
        """Handle acknowledgements that have arrived, and call their `on_delivery`."""
        ...

    def flush(self, timeout_s: float) -> int:
        """Wait for all acknowledgements. Return how many records still have none."""
        ...

    def discard(self) -> None:
        """Drop the producer and all records that it has not sent."""
        ...


class TransactionalClient(ProducerClient, Protocol):
    """A producer with a transactional id. Each call raises `ClientError`."""

    def init(self, timeout_s: float) -> None:
        """Send InitProducerId. It fences the previous producer of this id, and ends that producer's transaction."""
        ...

    def begin(self) -> None:
        """Begin a transaction."""
        ...

    def send_offsets(self, positions: Sequence[PartitionOffset], membership: Any, timeout_s: float) -> None:
        """Add input offsets to the transaction."""
        ...

    def commit(self, timeout_s: float) -> None:
        """Commit. A second call after a retriable error resumes the same commit."""
        ...

    def abort(self, timeout_s: float) -> None:
        """Abort the transaction."""
        ...


class Client(Protocol):
    """A Kafka client library."""

    @property
    def name(self) -> str:
        """Return the name that `--client` uses."""
        ...

    def consumer(
        self,
        settings: ConsumerSettings,
        topics: Sequence[str],
        listener: AssignmentListener,
        on_error: OnError,
    ) -> GroupConsumer:
        """Create a group member that subscribes to these topics."""
        ...

    def unsubscribed_consumer(self, settings: ConsumerSettings) -> GroupConsumer:
        """Create a consumer that never joins the group.

        Its group metadata names no member. So the coordinator accepts offsets with this metadata from a zombie as well.
        """
        ...

    def assigned_consumer(self, settings: ConsumerSettings, on_error: OnError) -> AssignedConsumer:
        """Create a consumer without a group. It commits nothing."""
        ...

    def end_offsets(
        self, bootstrap: str, name: str, topic_partitions: Sequence[tuple[str, int]], timeout_s: float
    ) -> dict[tuple[str, int], int]:
        """Return the current high watermark of each partition. Raises `ClientError`.

        It is not the last stable offset, so records of open transactions are below it.
        """
        ...

    def read_partition(
        self,
        bootstrap: str,
        name: str,
        topic_partition: tuple[str, int],
        isolation: Isolation,
        timeout_s: float,
    ) -> list[ClientRecord]:
        """Return the records of a partition up to its current high watermark.

        At read_committed, wait until the open transactions below it have ended. Raises `ClientError`.
        """
        ...

    def last_stable_offset(
        self, bootstrap: str, name: str, topic_partition: tuple[str, int]
    ) -> AbstractContextManager[Callable[[float], int]]:
        """Open a function that returns the current last stable offset of a partition.

        Every transaction below that offset has ended. The function takes a time-out in seconds, may be called many
        times, and raises `ClientError`.
        """
        ...

    def producer(self, settings: ProducerSettings, transactional_id: str) -> TransactionalClient:
        """Create a transactional producer. The caller must call `init`."""
        ...

    def plain_producer(self, settings: ProducerSettings) -> ProducerClient:
        """Create a producer without transactions."""
        ...

    def classify(self, error: Exception) -> ClientError | None:
        """Translate an exception of the library. Return None if it is not from the library."""
        ...

    def translate_errors(self) -> AbstractContextManager[None]:
        """Inside a `with` block, translate the library's exceptions into `ClientError`."""
        ...
