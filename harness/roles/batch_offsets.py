"""Positions of a batch: what was delivered, what to commit, where to go back to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.clients.interface import GroupConsumer, StartPosition
from harness.clients.records import ClientRecord
from harness.model.vocabulary import VALUE_HEADER
from harness.record.naming import header, partition_key

COMMITTED_TIMEOUT_S = 15.0


@dataclass(frozen=True)
class BatchOffsets:
    """Per partition, the first offset of a batch and the one above its last."""

    claims: Mapping[str, tuple[int, int]]
    partitions: Mapping[str, tuple[str, int]]

    @classmethod
    def of(cls, batch: Sequence[ClientRecord]) -> "BatchOffsets":
        """The positions of a batch of records."""
        claims: dict[str, tuple[int, int]] = {}
        partitions: dict[str, tuple[str, int]] = {}
        for message in batch:
            key = partition_key(message.topic(), message.partition())
            first, _ = claims.get(key, (message.offset(), 0))
            claims[key] = (first, message.offset() + 1)
            partitions[key] = (message.topic(), message.partition())
        return cls(claims, partitions)

    @property
    def first_positions(self) -> list[StartPosition]:
        """Where the batch began."""
        return [StartPosition(*self.partitions[key], first) for key, (first, _) in self.claims.items()]

    def count(self, batch: Sequence[ClientRecord]) -> int:
        """How many records of a batch are from these partitions."""
        return sum(partition_key(one.topic(), one.partition()) in self.claims for one in batch)

    def split_by_partition(self) -> dict[str, "BatchOffsets"]:
        """Those of each partition, by its name."""
        return {
            key: BatchOffsets({key: claim}, {key: self.partitions[key]}) for key, claim in self.claims.items()
        }

    def positions_to_commit(self, metadata: str) -> list[StartPosition]:
        """The offsets that say that the batch is done; the metadata names the operation."""
        return [
            StartPosition(*self.partitions[key], following, metadata)
            for key, (_, following) in self.claims.items()
        ]

    def rewind(self, consumer: GroupConsumer, known: Sequence[StartPosition] | None) -> None:
        """Seek back: to `known`, or to what the group has committed.

        Partitions that were taken away meanwhile are left alone: their new owner asks for itself.
        Raises `ClientError`.
        """
        owned = consumer.assigned()
        if known is None:
            asked = [place for place in self.partitions.values() if place in owned]
            known = consumer.committed(asked, COMMITTED_TIMEOUT_S)
        for position in known:
            if (position.topic, position.partition) in owned:
                consumer.seek(position)

    @staticmethod
    def delivered_records(batch: Sequence[ClientRecord]) -> dict[str, list[Any]]:
        """Offset and value of each record, by partition, in the order of delivery."""
        records: dict[str, list[Any]] = {}
        for message in batch:
            key = partition_key(message.topic(), message.partition())
            records.setdefault(key, []).append([message.offset(), header(message.headers(), VALUE_HEADER)])
        return records
