"""The Kafka client of a pipeline under test, behind one interface, so that the loop is the same code on each.

A client translates its library's exceptions into `ClientError` at the edge: nobody else knows the library.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Protocol

from harness.clients.records import ClientRecord
from harness.model.vocabulary import Isolation
from harness.record.naming import Headers

TRANSACTION_TIMEOUT_MS = 30_000
"""Longer than the pause that makes a zombie, so that fencing and not the time-out decides."""
SESSION_TIMEOUT_MS = 2_000
HEARTBEAT_MS = 300
"""Of members of a group; those of the consumer protocol are told the same by the brokers."""
PLAIN_TIMEOUT_MS = 40_000
"""For so long a record without a transaction is tried: a failover takes eight seconds."""
RETRY_S = 0.2
"""How long a worker waits before it asks again what a broker or a store could not answer."""
AUTO_COMMIT_MS = 500
"""How often a client that commits by itself does."""


class ErrorMeaning(StrEnum):
    """What an error means for whoever met it."""

    RETRIABLE = "retriable"  # the same call may succeed
    ABORTABLE = "abortable"  # the transaction must be aborted; the producer can go on
    FATAL = "fatal"  # the producer or consumer is of no more use
    FENCED = "fenced"  # another holds its id, or its transaction timed out: fatal too
    UNKNOWN = "unknown"  # the call may have taken effect


class ClientError(Exception):
    """An error of a client's library; the message has the library's own words."""

    def __init__(self, meaning: ErrorMeaning, words: str) -> None:
        super().__init__(words)
        self.meaning = meaning

    @property
    def ends_client(self) -> bool:
        """Whether a new producer or consumer is needed."""
        return self.meaning in (ErrorMeaning.FATAL, ErrorMeaning.FENCED)


@dataclass(frozen=True)
class StartPosition:
    """A place in a partition; `offset` None: nobody knows one, which stands for the beginning."""

    topic: str
    partition: int
    offset: int | None
    metadata: str = ""


@dataclass(frozen=True)
class GroupSettings:
    """How a member belongs to its group."""

    protocol: str = "classic"  # or consumer: KIP-848
    assignor: str | None = None  # of the classic protocol: eager or cooperative; None: the client's default
    instance_id: str | None = None  # of a static member (KIP-345): the same for its replacement

    @property
    def assigned_by_broker(self) -> bool:
        """Whether assignor, session time-out and heartbeats are the broker's to say."""
        return self.protocol == "consumer"


DEFAULT_GROUP = GroupSettings()


@dataclass(frozen=True)
class ConsumerSettings:
    """What a member of a consumer group is told."""

    bootstrap: str
    group: str
    name: str
    isolation: Isolation
    max_records: int = 500  # records that one poll may give
    auto_commit: bool = False  # the client commits what it has given, now and then
    group_settings: GroupSettings = DEFAULT_GROUP

    def without_membership(self) -> "ConsumerSettings":
        """The same for one that never joins: an instance id would name the member that has."""
        return replace(self, group_settings=DEFAULT_GROUP)


class AssignmentListener(Protocol):
    """Told of the partitions of a member, from within its `poll`."""

    def on_assigned(self, places: Sequence[tuple[str, int]]) -> Sequence[StartPosition] | None:
        """Partitions have come. Returns where each begins, or None to leave that to the client."""
        ...

    def on_revoked(self, places: Sequence[tuple[str, int]]) -> None:
        """Partitions were taken away."""
        ...


OnError = Callable[[ClientError], None]
OnDelivery = Callable[[int | None, int | None, str | None], None]
"""Told partition and offset of an acknowledged record (offset None: not told), or the error's words."""


class GroupConsumer(Protocol):
    """A member of a consumer group, which commits nothing by itself."""

    def poll(self, max_records: int, timeout_s: float) -> list[ClientRecord]:
        """Up to so many records, as soon as some are there. Errors go to the consumer's `on_error`."""
        ...

    def membership(self) -> Any:
        """What `TransactionalClient.send_offsets` needs of it (KIP-447)."""
        ...

    def assigned(self) -> set[tuple[str, int]]:
        """The partitions that it has now."""
        ...

    def committed(self, places: Sequence[tuple[str, int]], timeout_s: float) -> list[StartPosition]:
        """What the group has committed there. Raises `ClientError`."""
        ...

    def seek(self, position: StartPosition) -> None:
        """Go there. Raises `ClientError`."""
        ...

    def commit(self, positions: Sequence[StartPosition]) -> None:
        """Commit outside a transaction, and wait for it. Raises `ClientError`."""
        ...

    def close(self) -> None:
        """Leave the group."""
        ...


class AssignedConsumer(Protocol):
    """A consumer without a group: it reads the partitions that it is told, from where it is told."""

    def assign(self, positions: Sequence[StartPosition]) -> None:
        """Read these partitions from now on, each from its offset, and no other. Raises `ClientError`."""
        ...

    def poll(self, max_records: int, timeout_s: float) -> list[ClientRecord]:
        """Up to so many records, as soon as some are there. Errors go to the consumer's `on_error`."""
        ...

    def read_positions(self) -> Mapping[tuple[str, int], int]:
        """How far each of its partitions is read: above the last record, and above what is given to nobody (markers,
        aborted records). Raises `ClientError`.
        """
        ...

    def close(self) -> None:
        """Have no more to do with it."""
        ...


@dataclass(frozen=True)
class ProducerSettings:
    """What a producer is told. One of transactions is idempotent, and its records are acknowledged by all."""

    bootstrap: str
    idempotent: bool = True  # the brokers drop what a retry repeats
    retries: bool = True  # a record that may not have arrived is sent again
    acks: str = (
        "all"  # who must have a record before it is acknowledged: all replicas in sync, or 1, the leader
    )
    largest_bytes: int | None = None  # of a record: a larger one is refused by the client itself
    compression: str = "none"  # of the batches that it sends
    txn_timeout_ms: int = TRANSACTION_TIMEOUT_MS  # after it the coordinator aborts what is open
    block_s: float = 10.0  # for how long a call may block, of a client whose calls have one time-out


class ProducerClient(Protocol):
    """A producer. Each call raises `ClientError`."""

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
        """Queue a record; False while the queue is full. `timestamp_ms`: of its own, above 0; None: now.
        `partition`: None: the client chooses one by the key.
        """
        ...

    def poll(self, timeout_s: float) -> None:
        """Let acknowledgements come in."""
        ...

    def flush(self, timeout_s: float) -> int:
        """Wait for all acknowledgements; how many are missing."""
        ...

    def discard(self) -> None:
        """Give it up, with all that it still holds."""
        ...


class TransactionalClient(ProducerClient, Protocol):
    """A producer with a transactional id. Each call raises `ClientError`."""

    def init(self, timeout_s: float) -> None:
        """InitProducerId: fences whoever held the id, and ends what it left open."""
        ...

    def begin(self) -> None:
        """Begin a transaction."""
        ...

    def send_offsets(self, positions: Sequence[StartPosition], membership: Any, timeout_s: float) -> None:
        """Add input positions to the transaction."""
        ...

    def commit(self, timeout_s: float) -> None:
        """Commit; asked again after a retriable error it resumes."""
        ...

    def abort(self, timeout_s: float) -> None:
        """End it without effect."""
        ...


class Client(Protocol):
    """A library that speaks Kafka."""

    @property
    def name(self) -> str:
        """What `--client` calls it."""
        ...

    def consumer(
        self,
        settings: ConsumerSettings,
        topics: Sequence[str],
        listener: AssignmentListener,
        on_error: OnError,
    ) -> GroupConsumer:
        """A member of a group that subscribes to topics."""
        ...

    def unsubscribed_consumer(self, settings: ConsumerSettings) -> GroupConsumer:
        """One that never joins: its membership fences nobody."""
        ...

    def assigned_consumer(self, settings: ConsumerSettings, on_error: OnError) -> AssignedConsumer:
        """One that reads what it is told, and commits nothing."""
        ...

    def end_offsets(
        self, bootstrap: str, name: str, places: Sequence[tuple[str, int]], timeout_s: float
    ) -> dict[tuple[str, int], int]:
        """Where the log of each partition ends now, open transactions included. Raises `ClientError`."""
        ...

    def read_partition(
        self, bootstrap: str, name: str, place: tuple[str, int], isolation: Isolation, timeout_s: float
    ) -> list[ClientRecord]:
        """The records of a partition to where its log ends now, open transactions included: those are waited for
        at read_committed. Raises `ClientError`.
        """
        ...

    def last_stable_offset(
        self, bootstrap: str, name: str, place: tuple[str, int]
    ) -> AbstractContextManager[Callable[[float], int]]:
        """Asks, again and again, for the last stable offset of a partition: below it every transaction is decided.
        The call takes a time-out in seconds, and raises `ClientError`.
        """
        ...

    def producer(self, settings: ProducerSettings, transactional_id: str) -> TransactionalClient:
        """A producer of transactions, not yet initialised."""
        ...

    def plain_producer(self, settings: ProducerSettings) -> ProducerClient:
        """A producer without transactions."""
        ...

    def classify(self, error: Exception) -> ClientError | None:
        """The library's exception as ours; None: it is not the library's."""
        ...

    def translate_errors(self) -> AbstractContextManager[None]:
        """For the length of a `with`, the library's exceptions are raised as `ClientError`."""
        ...
