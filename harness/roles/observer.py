"""Observers: processes that read the outputs during the run. They are not under test."""

import time
from collections.abc import Iterable, Sequence

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from harness.clients import librdkafka
from harness.clients.interface import ClientRecord, consume
from harness.model.vocabulary import Isolation
from harness.processes.messages import Report
from harness.record.events import EndsRead, ErrorNoted, Polled, ReadEnd
from harness.record.journal import Journal
from harness.record.naming import partition_key
from harness.roles.batch_offsets import BatchOffsets
from harness.roles.control import Control

BATCH = 2_000
ENDS_TIMEOUT_S = 20.0
"""How long an observer continues to the ends of its partitions after the run has said stop."""
REFRESH_S = 5.0
"""After this time an observer asks again which partitions its topics have."""
METADATA_TIMEOUT_S = 2.0
"""How long an observer waits for the metadata of a topic."""


class RecordCounts:
    """Counts the records of each partition, with the first and the last offset. Without records the count is 0."""

    def __init__(self, topic_partitions: Sequence[tuple[str, int]]) -> None:
        self.ends: dict[str, ReadEnd] = {}
        self.begin(topic_partitions)

    def begin(self, topic_partitions: Iterable[tuple[str, int]]) -> None:
        """Add partitions without records."""
        self.ends |= {partition_key(*topic_partition): ReadEnd() for topic_partition in topic_partitions}

    def add(self, batch: Sequence[ClientRecord]) -> None:
        """Add the records of a batch."""
        for message in batch:
            end = self.ends[partition_key(message.topic(), message.partition())]
            if not end.read:
                end.first = message.offset()
            end.next = message.offset() + 1
            end.read += 1


class Observer:
    """Reads topics at read_committed during the run, also the partitions that they get meanwhile."""

    def __init__(
        self, bootstrap: str, topic_partitions: Sequence[tuple[str, int]], journal: Journal, control: Control
    ) -> None:
        self._journal = journal
        self._control = control
        self._counts = RecordCounts(topic_partitions)
        self._errors = 0
        self._topic_partitions = set(topic_partitions)
        self._ends: dict[tuple[str, int], int] = {}  # for each partition, the last end that was reached
        self._asked_at = time.monotonic()  # when it last learned which partitions there are
        self._knows_all = False  # it has learned this since the run said stop
        settings = librdkafka.reader(bootstrap, journal.name, Isolation.READ_COMMITTED)
        self._consumer = Consumer(settings | {"enable.partition.eof": True})
        self._consumer.assign(
            [TopicPartition(*topic_partition, OFFSET_BEGINNING) for topic_partition in topic_partitions]
        )

    def run(self) -> None:
        """Read until the run says stop, then read to the ends. Then record the number of records of each partition.

        The consumer is not closed, because that often takes a second and there is no group to leave.
        """
        self._control.report(Report(ready=True))
        deadline: float | None = None
        while self._has_more(deadline):
            if self._control.stopping:
                deadline = deadline or time.monotonic() + ENDS_TIMEOUT_S
                self._knows_all = self._knows_all or self._follow()
            else:
                self._control.listen()
                if time.monotonic() - self._asked_at > REFRESH_S:
                    self._follow()
            call_ns = self._journal.now_ns()
            batch = consume(self._consumer, BATCH, 0.2, self._note_error, self._ends.__setitem__)
            if batch:
                op = self._journal.number()
                self._journal.write(Polled(0, op, call_ns, BatchOffsets.delivered_records(batch)))
                self._counts.add(batch)
        self._journal.write(EndsRead(Isolation.READ_COMMITTED.value, self._counts.ends, self._errors))

    def _follow(self) -> bool:
        """Begin to read the partitions that topics got since the last call. Return whether a broker answered."""
        self._asked_at = time.monotonic()
        found: set[tuple[str, int]] = set()
        for topic in sorted({topic for topic, _ in self._topic_partitions}):
            try:
                metadata = self._consumer.list_topics(topic, timeout=METADATA_TIMEOUT_S).topics[topic]
            except KafkaException as error:
                self._note_error(error.args[0])
                return False
            found |= {(topic, partition) for partition in metadata.partitions}
        if added := sorted(found - self._topic_partitions):
            self._topic_partitions.update(added)
            self._counts.begin(added)
            self._consumer.incremental_assign([TopicPartition(*each, OFFSET_BEGINNING) for each in added])
        return True

    def _has_more(self, deadline: float | None) -> bool:
        if not self._control.stopping:
            return True
        read = {
            topic_partition: self._counts.ends[partition_key(*topic_partition)].next
            for topic_partition in self._topic_partitions
        }
        behind = [
            topic_partition
            for topic_partition in self._topic_partitions
            if self._ends.get(topic_partition, -1) < read[topic_partition]
        ]
        unread = bool(behind) or not self._knows_all
        return unread and (deadline is None or time.monotonic() < deadline)

    def _note_error(self, error: KafkaError) -> None:
        self._errors += 1
        self._journal.write(ErrorNoted(error=librdkafka.describe_error(error), errors=self._errors))
