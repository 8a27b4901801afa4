"""Count the records that a reader gets from each partition, with the first and the last offset."""

from collections.abc import Sequence

from harness.clients.records import ClientRecord
from harness.record.events import ReadEnd
from harness.record.naming import partition_key


class RecordCounts:
    """Counts records by partition. Partitions without records have a count of 0."""

    def __init__(self, topic_partitions: Sequence[tuple[str, int]]) -> None:
        self.ends = {partition_key(*topic_partition): ReadEnd() for topic_partition in topic_partitions}

    def add(self, batch: Sequence[ClientRecord]) -> None:
        """Add the records of a batch."""
        for message in batch:
            end = self.ends[partition_key(message.topic(), message.partition())]
            if not end.read:
                end.first = message.offset()
            end.next = message.offset() + 1
            end.read += 1
