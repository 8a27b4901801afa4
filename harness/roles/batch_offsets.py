"""Offsets of a batch of records: what was delivered, what to commit, and where to rewind to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.clients.interface import ClientRecord, GroupConsumer, PartitionOffset
from harness.model.vocabulary import VALUE_HEADER
from harness.record.naming import header, partition_key

COMMITTED_TIMEOUT_S = 15.0


@dataclass(frozen=True)
class BatchOffsets:
    """For each partition, the range of offsets of a batch. Keys are partition names (`partition_key`)."""

    claims: Mapping[str, tuple[int, int]]  # the first offset, and the last plus 1
    partitions: Mapping[str, tuple[str, int]]  # topic and partition number

    @classmethod
    def of(cls, batch: Sequence[ClientRecord]) -> "BatchOffsets":
        claims: dict[str, tuple[int, int]] = {}
        partitions: dict[str, tuple[str, int]] = {}
        for message in batch:
            key = partition_key(message.topic(), message.partition())
            first, _ = claims.get(key, (message.offset(), 0))
            claims[key] = (first, message.offset() + 1)
            partitions[key] = (message.topic(), message.partition())
        return cls(claims, partitions)

    @property
    def first_positions(self) -> list[PartitionOffset]:
        """Return the first offset of each partition."""
        return [PartitionOffset(*self.partitions[key], first) for key, (first, _) in self.claims.items()]

    def count(self, batch: Sequence[ClientRecord]) -> int:
        """Count the records of a batch that are from these partitions."""
        return sum(partition_key(message.topic(), message.partition()) in self.claims for message in batch)

    def split_by_partition(self) -> dict[str, "BatchOffsets"]:
        """Return the offsets of each partition by its name."""
        return {
            key: BatchOffsets({key: claim}, {key: self.partitions[key]}) for key, claim in self.claims.items()
        }

    def positions_to_commit(self, metadata: str) -> list[PartitionOffset]:
        """Return the offsets to commit after the batch. `metadata` is stored with them, and names the operation."""
        return [
            PartitionOffset(*self.partitions[key], following, metadata)
            for key, (_, following) in self.claims.items()
        ]

    def rewind(self, consumer: GroupConsumer, known: Sequence[PartitionOffset] | None) -> None:
        """Seek each partition of the batch to its offset in `known`. None: seek to the committed offsets of the group.

        Partitions that are no longer assigned are skipped, because their new owner sets its own position.
        Raises `ClientError`.
        """
        assigned = consumer.assigned()
        if known is None:
            topic_partitions = [
                topic_partition for topic_partition in self.partitions.values() if topic_partition in assigned
            ]
            known = consumer.committed(topic_partitions, COMMITTED_TIMEOUT_S)
        for position in known:
            if (position.topic, position.partition) in assigned:
                consumer.seek(position)

    @staticmethod
    def delivered_records(batch: Sequence[ClientRecord]) -> dict[str, list[Any]]:
        """Return offset and attempt name of each record, by partition, in the order of delivery."""
        records: dict[str, list[Any]] = {}
        for message in batch:
            key = partition_key(message.topic(), message.partition())
            records.setdefault(key, []).append([message.offset(), header(message.headers(), VALUE_HEADER)])
        return records
