"""A member of a group, on Kafka's Java client."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import jpype

from harness.clients.client_properties import java_properties
from harness.clients.interface import (
    AUTO_COMMIT_MS,
    HEARTBEAT_MS,
    SESSION_TIMEOUT_MS,
    AssignmentListener,
    ClientError,
    ConsumerSettings,
    ErrorMeaning,
    GroupSettings,
    OnError,
    StartPosition,
)
from harness.clients.java_errors import translate_errors
from harness.clients.java_records import JavaRecord, offsets_of, partition, places
from harness.clients.jvm import BYTE_ARRAY, COMMON, duration, java_class, java_list, java_map
from harness.clients.records import ClientRecord
from harness.model.vocabulary import Isolation

CLOSE_TIMEOUT_S = 10.0


_ASSIGNORS = {"eager": "RangeAssignor", "cooperative": "CooperativeStickyAssignor"}


def _group_properties(group: GroupSettings) -> dict[str, Any]:
    """What of a consumer's settings its group decides. The consumer protocol leaves time-outs to the brokers."""
    own = {} if group.instance_id is None else {"group.instance.id": group.instance_id}
    if group.assigned_by_broker:
        return {**own, "group.protocol": group.protocol}
    if group.assignor is not None:
        assignor = f"org.apache.kafka.clients.consumer.{_ASSIGNORS[group.assignor]}"
        own["partition.assignment.strategy"] = assignor
    return {**own, "session.timeout.ms": SESSION_TIMEOUT_MS, "heartbeat.interval.ms": HEARTBEAT_MS}


class JavaConsumer:
    """A member of a group."""

    def __init__(self, settings: ConsumerSettings, on_error: OnError) -> None:
        told = {
            **COMMON,
            **java_properties(),
            "bootstrap.servers": settings.bootstrap,
            "client.id": settings.name,
            "group.id": settings.group,
            "isolation.level": settings.isolation.value,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": settings.auto_commit,
            "auto.commit.interval.ms": AUTO_COMMIT_MS,
            **_group_properties(settings.group_settings),
            "fetch.max.wait.ms": 50,
            "max.poll.records": settings.max_records,
            "key.deserializer": f"{BYTE_ARRAY}Deserializer",
            "value.deserializer": f"{BYTE_ARRAY}Deserializer",
        }
        self._consumer = java_class("org.apache.kafka.clients.consumer.KafkaConsumer")(java_map(told))
        self._on_error = on_error

    def subscribe(self, topics: Sequence[str], listener: AssignmentListener) -> None:
        """Join the group."""

        @jpype.JImplements("org.apache.kafka.clients.consumer.ConsumerRebalanceListener")
        class Listener:
            @jpype.JOverride  # type: ignore[untyped-decorator]
            def onPartitionsAssigned(this, partitions: Any) -> None:  # noqa: N802, N805 - Java's names
                self._begin(listener.on_assigned(places(partitions)))

            @jpype.JOverride  # type: ignore[untyped-decorator]
            def onPartitionsRevoked(this, partitions: Any) -> None:  # noqa: N802, N805
                listener.on_revoked(places(partitions))

            @jpype.JOverride  # type: ignore[untyped-decorator]
            def onPartitionsLost(this, partitions: Any) -> None:  # noqa: N802, N805
                listener.on_revoked(places(partitions))

        self._consumer.subscribe(java_list([jpype.JString(topic) for topic in topics]), Listener())

    def poll(self, max_records: int, timeout_s: float) -> list[ClientRecord]:
        """Records, at most as many as its settings say; errors go to `on_error`."""
        try:
            with translate_errors():
                return [JavaRecord(record) for record in self._consumer.poll(duration(timeout_s))]
        except ClientError as error:
            self._on_error(error)
            return []

    def membership(self) -> Any:
        """The group's metadata."""
        return self._consumer.groupMetadata()

    def assigned(self) -> set[tuple[str, int]]:
        """The partitions that it has now."""
        with translate_errors():
            return set(places(self._consumer.assignment()))

    def committed(self, places: Sequence[tuple[str, int]], timeout_s: float) -> list[StartPosition]:
        """What the group has committed."""
        if not places:
            return []
        asked = java_class("java.util.HashSet")(java_list([partition(*place) for place in places]))
        with translate_errors():
            told = self._consumer.committed(asked, duration(timeout_s))
        offsets = {place: told.get(partition(*place)) for place in places}
        return [
            StartPosition(*place, None if offset is None else int(offset.offset()))
            for place, offset in offsets.items()
        ]

    def seek(self, position: StartPosition) -> None:
        """Go there."""
        place = partition(position.topic, position.partition)
        with translate_errors():
            if position.offset is None:
                self._consumer.seekToBeginning(java_list([place]))
            else:
                self._consumer.seek(place, jpype.JLong(position.offset))

    def commit(self, positions: Sequence[StartPosition]) -> None:
        """Commit outside a transaction."""
        with translate_errors():
            self._consumer.commitSync(offsets_of(positions))

    def close(self) -> None:
        """Leave the group."""
        with translate_errors():
            self._consumer.close(duration(CLOSE_TIMEOUT_S))

    def _begin(self, starts: Sequence[StartPosition] | None) -> None:
        for position in starts or ():
            self.seek(position)


def whole_partition(
    bootstrap: str, name: str, place: tuple[str, int], isolation: Isolation, timeout_s: float
) -> list[ClientRecord]:
    """The records of a partition up to its high watermark of this moment. Raises `ClientError`."""
    deadline = time.monotonic() + timeout_s
    where = partition(*place)
    asking = consumer_without_group(bootstrap, name, Isolation.READ_UNCOMMITTED)
    try:
        with translate_errors():
            end = int(asking.endOffsets(java_list([where])).get(where).longValue())
    finally:
        asking.close(duration(0))
    reader = consumer_without_group(bootstrap, name, isolation)
    try:
        with translate_errors():
            reader.assign(java_list([where]))
            reader.seekToBeginning(java_list([where]))
            records: list[ClientRecord] = []
            while (position := int(reader.position(where))) < end:
                if time.monotonic() > deadline:
                    raise ClientError(
                        ErrorMeaning.RETRIABLE,
                        f"{place[0]}/{place[1]} could be read up to offset {position} of {end} within {timeout_s:g} s",
                    )
                records += [JavaRecord(record) for record in reader.poll(duration(0.2))]
        return [record for record in records if record.offset() < end]
    finally:
        reader.close(duration(0))


@contextmanager
def last_stable_offset(bootstrap: str, name: str, place: tuple[str, int]) -> Iterator[Callable[[float], int]]:
    """Asks for the last stable offset: it is what a read-committed consumer is told to be the end."""
    reader, where = consumer_without_group(bootstrap, name, Isolation.READ_COMMITTED), partition(*place)

    def ask(timeout_s: float) -> int:
        return int(reader.endOffsets(java_list([where]), duration(timeout_s)).get(where).longValue())

    try:
        yield ask
    finally:
        reader.close(duration(0))


def consumer_without_group(
    bootstrap: str, name: str, isolation: Isolation, more: Mapping[str, Any] | None = None
) -> Any:
    """A consumer without a group. `more`: settings beyond those."""
    told = {
        **COMMON,
        **java_properties(),
        "bootstrap.servers": bootstrap,
        "client.id": f"{name}-reader",
        "isolation.level": isolation.value,
        "enable.auto.commit": False,
        "key.deserializer": f"{BYTE_ARRAY}Deserializer",
        "value.deserializer": f"{BYTE_ARRAY}Deserializer",
        **(more or {}),
    }
    return java_class("org.apache.kafka.clients.consumer.KafkaConsumer")(java_map(told))
