"""A client without Kafka. It records the calls of the code under test, and raises the errors that a test sets."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

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
)
from harness.model.vocabulary import Isolation
from harness.record.naming import Headers


@dataclass(frozen=True)
class FakeRecord:
    """A record of a fake log."""

    topic_partition: tuple[str, int]
    record_offset: int
    content: bytes | None = b"v"
    record_key: bytes | None = b"k"
    record_headers: tuple[tuple[str, str | bytes | None], ...] = ()

    def topic(self) -> str:
        return self.topic_partition[0]

    def partition(self) -> int:
        return self.topic_partition[1]

    def offset(self) -> int:
        return self.record_offset

    def key(self) -> bytes | None:
        return self.record_key

    def value(self) -> bytes | None:
        return self.content

    def headers(self) -> Headers | None:
        return list(self.record_headers)

    def timestamp(self) -> tuple[int, int]:
        return (1, 0)


@dataclass
class FakeClient:
    """A `Client` in memory. `calls` has every call, and `fails` sets an error by the name of the call."""

    polled: list[FakeRecord] = field(default_factory=list)
    logs: dict[tuple[str, int], list[FakeRecord]] = field(default_factory=dict)  # by partition
    fails: dict[str, ErrorMeaning] = field(default_factory=dict)
    never_acknowledges: bool = False
    committed: dict[tuple[str, int], int] = field(default_factory=dict)  # the offsets of the group
    calls: list[tuple[Any, ...]] = field(default_factory=list)
    records: list[tuple[Headers, int | None]] = field(
        default_factory=list
    )  # headers and time stamp of each sent record
    name: str = "fake"

    def do(self, *call: Any) -> None:
        """Record a call, and raise the error that the test has set for it."""
        self.calls.append(call)
        if call[0] in self.fails:
            raise ClientError(self.fails[call[0]], f"{call[0]} was to fail")

    def arguments_of(self, call: str) -> list[tuple[Any, ...]]:
        """Return the arguments of every call with this name."""
        return [arguments for name, *arguments in self.calls if name == call]

    def consumer(
        self,
        settings: ConsumerSettings,
        topics: Sequence[str],
        listener: AssignmentListener,
        on_error: OnError,
    ) -> "FakeConsumer":
        return FakeConsumer(self)

    def assigned_consumer(self, settings: ConsumerSettings, on_error: OnError) -> "FakeAssigned":
        self.do("assigned-consumer", settings)
        return FakeAssigned(self)

    def end_offsets(
        self, bootstrap: str, name: str, topic_partitions: Sequence[tuple[str, int]], timeout_s: float
    ) -> dict[tuple[str, int], int]:
        self.do("end_offsets")
        return {
            topic_partition: len(self.logs.get(topic_partition, ())) for topic_partition in topic_partitions
        }

    def unsubscribed_consumer(self, settings: ConsumerSettings) -> "FakeConsumer":
        return FakeConsumer(self)

    def producer(self, settings: ProducerSettings, transactional_id: str) -> "FakeProducer":
        return FakeProducer(self, transactional_id)

    def plain_producer(self, settings: ProducerSettings) -> "FakeProducer":
        self.do("plain", settings)
        return FakeProducer(self, "plain")

    def read_partition(
        self,
        bootstrap: str,
        name: str,
        topic_partition: tuple[str, int],
        isolation: Isolation,
        timeout_s: float,
    ) -> list[ClientRecord]:
        self.do("read", topic_partition, isolation)
        return list(self.logs.get(topic_partition, ()))

    @contextmanager
    def last_stable_offset(
        self, bootstrap: str, name: str, topic_partition: tuple[str, int]
    ) -> Iterator[Callable[[float], int]]:
        def read_offset(timeout_s: float) -> int:
            self.do("stable", topic_partition)
            return len(self.arguments_of("stable"))

        yield read_offset

    def classify(self, error: Exception) -> ClientError | None:
        return error if isinstance(error, ClientError) else None

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        yield


@dataclass
class FakeConsumer:
    """A consumer of a group. Its polls return the records in `polled` of the client."""

    client: FakeClient

    def poll(self, max_records: int, timeout_s: float) -> list[ClientRecord]:
        records, self.client.polled = self.client.polled[:max_records], self.client.polled[max_records:]
        return list(records)

    def membership(self) -> Any:
        return "member"

    def assigned(self) -> set[tuple[str, int]]:
        return {("in", 0), ("in", 1)}

    def committed(
        self, topic_partitions: Sequence[tuple[str, int]], timeout_s: float
    ) -> list[PartitionOffset]:
        self.client.do("committed")
        return [
            PartitionOffset(*topic_partition, self.client.committed.get(topic_partition, 0))
            for topic_partition in topic_partitions
        ]

    def seek(self, position: PartitionOffset) -> None:
        self.client.do("seek", position)

    def commit(self, positions: Sequence[PartitionOffset]) -> None:
        self.client.do("commit-offsets", [(p.topic, p.partition, p.offset) for p in positions])

    def close(self) -> None:
        pass


@dataclass
class FakeAssigned:
    """A consumer with assigned partitions. Its polls return the records of the client's logs."""

    client: FakeClient
    at: dict[tuple[str, int], int] = field(default_factory=dict)

    def assign(self, positions: Sequence[PartitionOffset]) -> None:
        self.client.do("assign", [(p.topic, p.partition, p.offset) for p in positions])
        self.at = {(p.topic, p.partition): p.offset or 0 for p in positions}

    def poll(self, max_records: int, timeout_s: float) -> list[ClientRecord]:
        records: list[ClientRecord] = []
        for topic_partition, at in self.at.items():
            new = self.client.logs.get(topic_partition, [])[at : at + max_records - len(records)]
            self.at[topic_partition] = at + len(new)
            records += new
        return records

    def read_positions(self) -> dict[tuple[str, int], int]:
        return self.at

    def close(self) -> None:
        self.client.do("close")


@dataclass
class FakeProducer:
    """A producer that acknowledges each record, unless the client has `never_acknowledges`."""

    client: FakeClient
    transactional_id: str
    sent: int = 0
    offsets: dict[tuple[str, int], int] = field(default_factory=dict)  # of the open transaction

    def init(self, timeout_s: float) -> None:
        self.client.do("init", self.transactional_id)

    def begin(self) -> None:
        self.client.do("begin", self.transactional_id)

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
        self.client.do("send", self.transactional_id, topic, value)
        self.client.records.append((headers, timestamp_ms))
        if partition is not None and not self.client.never_acknowledges:
            log = self.client.logs.setdefault((topic, partition), [])
            on_delivery(partition, len(log), None)
            log.append(FakeRecord((topic, partition), len(log), value, key, tuple(headers)))
        elif not self.client.never_acknowledges:
            on_delivery(0, self.sent, None)
        self.sent += 1
        return True

    def poll(self, timeout_s: float) -> None:
        pass

    def flush(self, timeout_s: float) -> int:
        return self.sent if self.client.never_acknowledges else 0

    def send_offsets(self, positions: Sequence[PartitionOffset], membership: Any, timeout_s: float) -> None:
        self.client.do(
            "send-offsets", self.transactional_id, [(p.topic, p.partition, p.offset) for p in positions]
        )
        self.offsets = {(p.topic, p.partition): p.offset or 0 for p in positions}

    def commit(self, timeout_s: float) -> None:
        self.client.do("commit", self.transactional_id)
        self.client.committed |= self.offsets

    def abort(self, timeout_s: float) -> None:
        self.client.do("abort", self.transactional_id)

    def discard(self) -> None:
        self.client.do("discard", self.transactional_id)
