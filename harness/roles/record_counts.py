"""What a reader was given, by partition: how many records, and from which offset to which."""

from collections.abc import Sequence

from harness.clients.records import ClientRecord
from harness.record.events import ReadEnd
from harness.record.naming import partition_key


class RecordCounts:
    """Counts the records of every partition that a reader was promised, also of those that gave none."""

    def __init__(self, places: Sequence[tuple[str, int]]) -> None:
        self.ends = {partition_key(*place): ReadEnd() for place in places}

    def add(self, batch: Sequence[ClientRecord]) -> None:
        """Count the records of a batch."""
        for message in batch:
            end = self.ends[partition_key(message.topic(), message.partition())]
            if not end.read:
                end.first = message.offset()
            end.next = message.offset() + 1
            end.read += 1
