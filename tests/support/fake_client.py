"""A client without Kafka: one partition a topic, offsets of a group, and errors as they are ordered."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from harness.clients.interface import (
    AssignmentListener,
    ClientError,
    ConsumerSettings,
    ErrorMeaning,
    OnDelivery,
    OnError,
    PartitionOffset,
    ProducerSettings,
)
from harness.clients.records import ClientRecord
from harness.model.vocabulary import Isolation
from harness.record.naming import Headers


@dataclass(frozen=True)
class FakeRecord:
    """A record of a fake log."""

    place: tuple[str, int]
    at: int
    content: bytes | None = b"v"
    named: bytes | None = b"k"
    more: tuple[tuple[str, str | bytes | None], ...] = ()

    def topic(self) -> str:
        return self.place[0]

    def partition(self) -> int:
        return self.place[1]

    def offset(self) -> int:
        return self.at

    def key(self) -> bytes | None:
        return self.named

    def value(self) -> bytes | None:
        return self.content

    def headers(self) -> Headers | None:
        return list(self.more)

    def timestamp(self) -> tuple[int, int]:
        return (1, 0)


@dataclass
class FakeClient:
    """What it did stands in `did`; `fails` orders errors by the name of the call."""

    given: list[FakeRecord] = field(default_factory=list)
    kept: dict[tuple[str, int], list[FakeRecord]] = field(default_factory=dict)  # for `read_whole`
    fails: dict[str, ErrorMeaning] = field(default_factory=dict)
    unanswered: bool = False  # no record is ever acknowledged
    did: list[tuple[Any, ...]] = field(default_factory=list)
    records: list[tuple[Headers, int | None]] = field(default_factory=list)  # what was sent with each record
    name: str = "fake"

    def do(self, *what: Any) -> None:
        """Note a call, or fail as ordered."""
        self.did.append(what)
        if what[0] in self.fails:
            raise ClientError(self.fails[what[0]], f"{what[0]} was to fail")

    def named(self, call: str) -> list[tuple[Any, ...]]:
        """The arguments of every call of that name."""
        return [rest for called, *rest in self.did if called == call]

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
        self, bootstrap: str, name: str, places: Sequence[tuple[str, int]], timeout_s: float
    ) -> dict[tuple[str, int], int]:
        self.do("end_offsets")
        return {place: len(self.kept.get(place, ())) for place in places}

    def unsubscribed_consumer(self, settings: ConsumerSettings) -> "FakeConsumer":
        return FakeConsumer(self)

    def producer(self, settings: ProducerSettings, transactional_id: str) -> "FakeProducer":
        return FakeProducer(self, transactional_id)

    def plain_producer(self, settings: ProducerSettings) -> "FakeProducer":
        self.do("plain", settings)
        return FakeProducer(self, "plain")

    def read_partition(
        self, bootstrap: str, name: str, place: tuple[str, int], isolation: Isolation, timeout_s: float
    ) -> list[ClientRecord]:
        self.do("read", place, isolation)
        return list(self.kept.get(place, ()))

    @contextmanager
    def last_stable_offset(
        self, bootstrap: str, name: str, place: tuple[str, int]
    ) -> Iterator[Callable[[float], int]]:
        def ask(timeout_s: float) -> int:
            self.do("stable", place)
            return len(self.named("stable"))

        yield ask

    def classify(self, error: Exception) -> ClientError | None:
        return error if isinstance(error, ClientError) else None

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        yield


@dataclass
class FakeConsumer:
    """Gives what its client was given."""

    client: FakeClient

    def poll(self, max_records: int, timeout_s: float) -> list[ClientRecord]:
        given, self.client.given = self.client.given[:max_records], self.client.given[max_records:]
        return list(given)

    def membership(self) -> Any:
        return "member"

    def assigned(self) -> set[tuple[str, int]]:
        return {("in", 0), ("in", 1)}

    def committed(self, places: Sequence[tuple[str, int]], timeout_s: float) -> list[PartitionOffset]:
        self.client.do("committed")
        return [PartitionOffset(*place, 0) for place in places]

    def seek(self, position: PartitionOffset) -> None:
        self.client.do("seek", position)

    def commit(self, positions: Sequence[PartitionOffset]) -> None:
        self.client.do("commit-offsets", [(p.topic, p.partition, p.offset) for p in positions])

    def close(self) -> None:
        pass


@dataclass
class FakeAssigned:
    """Gives of each partition that it is assigned what its client has kept there."""

    client: FakeClient
    at: dict[tuple[str, int], int] = field(default_factory=dict)

    def assign(self, positions: Sequence[PartitionOffset]) -> None:
        self.client.do("assign", [(p.topic, p.partition, p.offset) for p in positions])
        self.at = {(p.topic, p.partition): p.offset or 0 for p in positions}

    def poll(self, max_records: int, timeout_s: float) -> list[ClientRecord]:
        given: list[ClientRecord] = []
        for place, at in self.at.items():
            new = self.client.kept.get(place, [])[at : at + max_records - len(given)]
            self.at[place] = at + len(new)
            given += new
        return given

    def read_positions(self) -> dict[tuple[str, int], int]:
        return self.at

    def close(self) -> None:
        self.client.do("close")


@dataclass
class FakeProducer:
    """Acknowledges what it is sent, unless it is not to."""

    client: FakeClient
    own: str
    sent: int = 0

    def init(self, timeout_s: float) -> None:
        self.client.do("init", self.own)

    def begin(self) -> None:
        self.client.do("begin", self.own)

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
        self.client.do("send", self.own, topic, value)
        self.client.records.append((headers, timestamp_ms))
        if partition is not None and not self.client.unanswered:
            log = self.client.kept.setdefault((topic, partition), [])
            on_delivery(partition, len(log), None)
            log.append(FakeRecord((topic, partition), len(log), value, key, tuple(headers)))
        elif not self.client.unanswered:
            on_delivery(0, self.sent, None)
        self.sent += 1
        return True

    def poll(self, timeout_s: float) -> None:
        pass

    def flush(self, timeout_s: float) -> int:
        return self.sent if self.client.unanswered else 0

    def send_offsets(self, positions: Sequence[PartitionOffset], membership: Any, timeout_s: float) -> None:
        self.client.do("send-offsets", self.own, [(p.topic, p.partition, p.offset) for p in positions])

    def commit(self, timeout_s: float) -> None:
        self.client.do("commit", self.own)

    def abort(self, timeout_s: float) -> None:
        self.client.do("abort", self.own)

    def discard(self) -> None:
        self.client.do("discard", self.own)
