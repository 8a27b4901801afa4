"""The consumer of a worker that assigns itself partitions, and the offsets up to which its reads count."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from harness.clients.interface import (
    AssignedConsumer,
    Client,
    ClientError,
    ClientRecord,
    ConsumerSettings,
    PartitionOffset,
)
from harness.model.pipeline import TopicPartition
from harness.record.events import Assigned, ErrorNoted, Polled
from harness.record.journal import Journal
from harness.record.naming import partition_key
from harness.roles.batch_offsets import BatchOffsets

POLL_S = 0.1


class InputReader:
    """A consumer and its positions.

    It records its actions in the journal, and replaces the consumer after a fatal error.
    """

    def __init__(self, client: Client, settings: ConsumerSettings, journal: Journal, process: int) -> None:
        self._client = client
        self._settings = settings
        self._journal = journal
        self.process = process
        self.assigned: tuple[TopicPartition, ...] = ()
        self.read_to: dict[TopicPartition, int] = {}  # the offset after the last read that counts
        self._consumer = self._new_consumer()

    def assign_only(self, topic_partitions: Sequence[TopicPartition]) -> bool:
        """Assign exactly these keys. Return whether that succeeded."""
        if self._consumer_failed or set(topic_partitions) != set(self.assigned):
            self._try_to_move(partial(self._assign, topic_partitions))
        return not self._consumer_failed

    def poll(self, txn: int | None = None, at: int | None = None) -> list[ClientRecord]:
        """Poll once.

        `txn` is the operation of the transaction, and `at` is the index of the micro-operation in it. Outside a
        transaction both are None, and an empty poll is not recorded.
        """
        call_ns = self._journal.now_ns()
        batch = self._consumer.poll(self._settings.max_records, POLL_S)
        if batch or txn is not None:
            op = self._journal.number()
            self._journal.write(
                Polled(self.process, op, call_ns, BatchOffsets.delivered_records(batch), txn, at)
            )
        return batch

    def count(self, batch: Iterable[ClientRecord]) -> None:
        """Count these reads: `seek_back` will not go before them."""
        for record in batch:
            self.read_to[record.topic(), record.partition()] = record.offset() + 1

    def seek_back(self) -> None:
        """Seek back to the end of the reads that count."""
        self._try_to_move(partial(self._assign_at_positions, self.assigned))

    def change_process(self, process: int) -> None:
        """Continue under another process number, with the same keys. Record from where."""
        self.process = process
        self._record_assignment(True, self.assigned)

    def unread(self, ends: Mapping[TopicPartition, int]) -> list[TopicPartition]:
        """Return the assigned keys that are not read up to `ends`. Raises `ClientError`."""
        read_positions = self._consumer.read_positions()
        return [
            topic_partition
            for topic_partition in self.assigned
            if read_positions.get(topic_partition, 0) < ends[topic_partition]
        ]

    def close(self) -> None:
        self._consumer.close()

    def _assign(self, topic_partitions: Sequence[TopicPartition]) -> None:
        if self._consumer_failed:
            self._consumer.close()
            self._consumer = self._new_consumer()
        lost = [
            topic_partition for topic_partition in self.assigned if topic_partition not in topic_partitions
        ]
        gained = [
            topic_partition for topic_partition in topic_partitions if topic_partition not in self.assigned
        ]
        self._assign_at_positions(topic_partitions)
        self.assigned = tuple(topic_partitions)
        self._record_assignment(False, lost)
        self._record_assignment(True, gained)

    def _assign_at_positions(self, topic_partitions: Iterable[TopicPartition]) -> None:
        self._consumer.assign(
            [
                PartitionOffset(*topic_partition, self.read_to.get(topic_partition, 0))
                for topic_partition in topic_partitions
            ]
        )

    def _record_assignment(self, gained: bool, topic_partitions: Sequence[TopicPartition]) -> None:
        if topic_partitions:
            starts = (
                [self.read_to.get(topic_partition, 0) for topic_partition in topic_partitions]
                if gained
                else None
            )
            keys = [partition_key(*topic_partition) for topic_partition in topic_partitions]
            self._journal.write(Assigned(self.process, gained, keys, starts))

    def _try_to_move(self, act: Callable[[], None]) -> None:
        """Move the consumer. If that fails its position is not known, and it will be replaced."""
        try:
            act()
        except ClientError as error:
            self._journal.write(ErrorNoted(error=str(error)))
            self._consumer_failed = True

    def _new_consumer(self) -> AssignedConsumer:
        self._consumer_failed = False
        return self._client.assigned_consumer(self._settings, self._on_error)

    def _on_error(self, error: ClientError) -> None:
        """Record an error. After a fatal error the consumer will be replaced."""
        self._journal.write(ErrorNoted(error=str(error)))
        self._consumer_failed = self._consumer_failed or error.ends_client
