"""The sums of a stage: restored from the topic that the stage writes, and changed with each transaction.

A worker keeps the sums of the keys in its partitions only in memory. A new owner of a partition reads the committed
records of the topic of sums, up to the end that its log has at that time. It waits for a transaction that a dead
worker left open, because records of a later owner can follow it.
"""

from collections.abc import Iterable, Sequence

from harness.clients.interface import Client
from harness.clients.records import ClientRecord, as_input
from harness.model.pipeline import TopicPartition
from harness.model.vocabulary import Isolation, Outcome
from workloads.loop.delivery import PendingOutput
from workloads.model.workload import Aggregate, Output

RESTORE_TIMEOUT_S = 45.0
"""It is longer than a transaction can stay open."""
OUTPUT_NAME = "sum"


class KeySums:
    """The sums of one worker's partitions."""

    def __init__(
        self, aggregate: Aggregate, client: Client, bootstrap: str, name: str, isolation: Isolation
    ) -> None:
        self._aggregate = aggregate
        self._client = client
        self._bootstrap = bootstrap
        self._name = name
        self._isolation = isolation
        self._sums: dict[TopicPartition, dict[bytes, int]] = {}
        self._changed: dict[TopicPartition, dict[bytes, int]] = {}

    def restore(self, topic_partition: TopicPartition) -> None:
        """Restore the sums of the keys of an input partition, from the same partition of the topic of sums.

        Raises `ClientError`.
        """
        sums: dict[bytes, int] = {}
        sums_partition = (self._aggregate.topic, topic_partition[1])
        for record in self._client.read_partition(
            self._bootstrap, self._name, sums_partition, self._isolation, RESTORE_TIMEOUT_S
        ):
            total = self._aggregate.state(as_input(record))
            key = record.key()
            if total is not None and key is not None:
                sums[key] = total
        self._sums[topic_partition] = sums

    def forget(self, topic_partition: TopicPartition) -> None:
        """Drop the sums of a partition that the worker has lost."""
        self._sums.pop(topic_partition, None)

    def are_restored(self, topic_partitions: Iterable[TopicPartition]) -> bool:
        """Whether the sums of these input partitions are restored."""
        return all(topic_partition in self._sums for topic_partition in topic_partitions)

    def plan(self, batch: Sequence[ClientRecord]) -> list[PendingOutput]:
        """Return an output with the new sum for each key that these inputs change."""
        self._changed = {}
        sources: dict[tuple[TopicPartition, bytes], list[ClientRecord]] = {}
        for record in batch:
            topic_partition = (record.topic(), record.partition())
            changed = self._changed.setdefault(topic_partition, {})
            for key, amount in self._aggregate.adds(as_input(record)):
                changed[key] = changed.get(key, self._sums[topic_partition].get(key, 0)) + amount
                sources.setdefault((topic_partition, key), []).append(record)
        return [
            PendingOutput(
                tuple(records),
                Output(
                    self._aggregate.topic,
                    OUTPUT_NAME,
                    key,
                    self._aggregate.value(self._changed[topic_partition][key]),
                ),
            )
            for (topic_partition, key), records in sources.items()
        ]

    def apply_outcome(self, outcome: Outcome) -> None:
        """Keep the changes of a transaction if it is ok, and drop them if it failed.

        If the outcome is info, restore the sums. Raises `ClientError`.
        """
        changed, self._changed = self._changed, {}
        for topic_partition, sums in changed.items():
            if outcome is Outcome.OK:
                self._sums[topic_partition].update(sums)
            elif outcome is Outcome.INFO:
                self.restore(topic_partition)
