"""Count the inputs that a stage has not processed yet, and mark the ends of the partitions."""

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Protocol, cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as KafkaTopicPartition
from msgspec import structs

from harness.clients import librdkafka
from harness.clients.interface import ProducerSettings
from harness.cluster import Cluster
from harness.common.errors import WaitTimeout, in_words
from harness.common.wording import join_words
from harness.databases.interface import Backlog, no_backlog
from harness.model.pipeline import StageSpec, TopicPartition
from harness.model.vocabulary import SENTINEL_VALUE, VALUE_HEADER, Isolation, OffsetTracking
from harness.record.naming import Headers
from harness.results.run_metadata import StageProgress
from harness.runner.progress import AskProgress, ProgressNotKnown, read_progress

PROBE_TIMEOUT_S = 10.0
COUNTED_BELOW = 5_000
"""Below this number, the inputs that a stage has not processed yet are counted exactly.

Above it, their number is estimated from offsets, which include transaction markers.
"""
MARK_TIMEOUT_S = 30.0


def count_unread(bootstrap: str, positions: Mapping[TopicPartition, int]) -> int:
    """Count the visible records at or above these positions.

    The records are read, because a difference of offsets would count markers as well. Raises `WaitTimeout` if the end
    of a partition is not reached within `PROBE_TIMEOUT_S`.
    """
    if not positions:
        return 0
    while _CLOSING:
        _CLOSING.pop().join()
    settings = librdkafka.reader(bootstrap, "lag", Isolation.READ_COMMITTED) | {"enable.partition.eof": True}
    consumer = Consumer(settings)
    try:
        consumer.assign(
            [KafkaTopicPartition(*topic_partition, offset) for topic_partition, offset in positions.items()]
        )
        count = 0
        pending = set(positions)
        deadline = time.monotonic() + PROBE_TIMEOUT_S
        while pending:
            if time.monotonic() > deadline:
                raise WaitTimeout(
                    "the ends of all partitions",
                    PROBE_TIMEOUT_S,
                    [f"no end of {topic}/{number}" for topic, number in sorted(pending)],
                )
            for message in consumer.consume(1_000, timeout=0.1):
                error = message.error()
                if error is None:
                    count += 1
                elif error.code() == KafkaError._PARTITION_EOF:
                    pending.discard((cast(str, message.topic()), cast(int, message.partition())))
        return count
    finally:
        _CLOSING.append(threading.Thread(target=_close, args=(consumer,), name="close", daemon=True))
        _CLOSING[-1].start()


_CLOSING: list[threading.Thread] = []
"""Threads that close consumers. librdkafka often needs a second for this; only the next `count_unread` waits for it."""


def _close(consumer: Consumer) -> None:
    with suppress(KafkaException):  # the count is complete, so an error does not matter
        consumer.close()


def write_sentinels(bootstrap: str, topic_partitions: Sequence[TopicPartition], timeout_s: float) -> None:
    """Write a sentinel at the end of each partition. Raises `WaitTimeout`."""
    producer = Producer(librdkafka.idempotent_producer(ProducerSettings(bootstrap)))
    failed: list[str] = []

    def on_delivery(error: KafkaError | None, _: object) -> None:
        if error is not None:
            failed.append(librdkafka.describe_error(error))

    for topic, partition in topic_partitions:
        name = f"{SENTINEL_VALUE}:{topic}/{partition}"
        headers: Headers = [(VALUE_HEADER, name.encode())]
        producer.produce(topic, b"", partition=partition, headers=headers, on_delivery=on_delivery)
    remaining = producer.flush(timeout_s)
    if remaining or failed:
        raise WaitTimeout(
            "all sentinels to be written",
            timeout_s,
            f"{remaining} sentinels are still queued, and {len(failed)} failed; first error: {in_words(failed[:1])}",
        )


class EndMarkers(Protocol):
    """Counts the inputs that a stage has not processed yet, and marks the ends of the partitions."""

    def inputs_left(self, stage: StageSpec, starting: bool = False, ended: bool = False) -> int | None:
        """Return how many visible inputs the stage has not committed yet; None: not known now.

        Args:
            stage: The stage.
            starting: A worker of the stage is not ready yet.
            ended: All workers have ended. If `[stage.progress]` fails now, its last output counts.
        """
        ...

    def outputs_written(self, stage: StageSpec) -> int:
        """Return the sum of the high watermarks of the stage's output partitions, or of the positions that it printed.

        0 if committed offsets already show its progress.
        """
        ...

    def last_seen(self, stage: StageSpec) -> str:
        """Say what the last call of `inputs_left` saw: what was asked and what was answered. Empty: nothing to add."""
        ...

    @property
    def progress(self) -> Mapping[str, StageProgress]:
        """What `[stage.progress]` printed last, by stage."""
        ...

    def open_transactions(self, topics: Sequence[str], groups: Sequence[str]) -> list[str]:
        """Describe each partition with an open transaction, for example `orders/0 at 17` (its last stable offset).

        These are the partitions of the topics, and the partitions of the groups' committed offsets.
        """
        ...

    def unread(self, stage: StageSpec) -> Sequence[TopicPartition]:
        """Return the partitions with inputs for which the group had committed nothing at the last `inputs_left`.

        Empty if it was behind in any other partition, or if that is not known.
        """
        ...

    def resolve_ends(self, topic_partitions: Sequence[TopicPartition]) -> None:
        """Read the end offset of each partition, if no sentinel will mark it. Raises `WaitTimeout`."""
        ...

    def mark_ends(self, topic_partitions: Sequence[TopicPartition]) -> None:
        """Write the sentinels, if sentinels mark the ends. Final readers may be reading already.

        Raises `WaitTimeout`.
        """
        ...

    @property
    def end_offsets(self) -> Mapping[TopicPartition, int]:
        """The end offset of each partition, after `resolve_ends`; empty: sentinels mark the ends."""
        ...


class SentinelEndMarkers:
    """An `EndMarkers` for workloads: a sentinel is the last record of each partition."""

    end_offsets: Mapping[TopicPartition, int] = {}
    progress: Mapping[str, StageProgress] = {}

    def __init__(self, cluster: Cluster, backlog: Backlog = no_backlog) -> None:
        self._cluster = cluster
        self._backlog = backlog
        self._last_seen: dict[str, str] = {}  # by stage
        self._unread: dict[str, Sequence[TopicPartition]] = {}  # by stage

    def inputs_left(self, stage: StageSpec, starting: bool = False, ended: bool = False) -> int | None:
        """Count the inputs that the group has not committed, or the unprocessed rows of the tables that it reads."""
        self._unread[stage.name] = ()
        if stage.offset_tracking is OffsetTracking.EACH:
            counts = [self._backlog(table, None) for table in stage.reads]
            return None if None in counts else sum(count or 0 for count in counts)
        if stage.group is None:
            return 0  # without a group, nothing shows how many are left
        try:
            committed = self._cluster.committed_offsets(stage.group)
            ends = self._cluster.log_offsets(self._input_topics(stage, committed))
            return self._count(stage, committed, ends)
        except WaitTimeout as error:
            self._last_seen[stage.name] = (
                f"the cluster was asked for {error.description}, and answered: " + in_words(error.last_seen)
            )
            return None

    def _count(
        self,
        stage: StageSpec,
        positions: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, tuple[int, int, int]],
    ) -> int | None:
        """Count the visible inputs from these positions on. None while a transaction is open. Raises `WaitTimeout`."""
        if self._is_open(stage, ends):
            return None
        behind = _behind(positions, ends)
        if behind.keys().isdisjoint(positions):
            self._unread[stage.name] = list(behind)
        self._last_seen[stage.name] = join_words(
            f"{t}/{p} is processed to offset {position} of {ends[t, p][1]}"
            for (t, p), position in behind.items()
        )
        between = sum(ends[topic_partition][1] - position for topic_partition, position in behind.items())
        return between if between >= COUNTED_BELOW else count_unread(self._cluster.bootstrap, behind)

    def _is_open(self, stage: StageSpec, ends: Mapping[TopicPartition, tuple[int, int, int]]) -> bool:
        """Return whether an open transaction may still add visible inputs."""
        unstable = [
            f"{t}/{p} at offset {stable}" for (t, p), (_, stable, high) in ends.items() if stable < high
        ]
        if unstable:
            self._last_seen[stage.name] = f"a transaction is open in {join_words(unstable)}"
        return bool(unstable)

    def last_seen(self, stage: StageSpec) -> str:
        """Say what the last call of `inputs_left` saw."""
        return self._last_seen.get(stage.name, "")

    def unread(self, stage: StageSpec) -> Sequence[TopicPartition]:
        """Return the partitions with inputs for which the group had committed nothing at the last `inputs_left`.

        Empty if it was behind in any other partition, or if that is not known.
        """
        return self._unread.get(stage.name, ())

    def outputs_written(self, stage: StageSpec) -> int:
        """Always 0: committed offsets and journals show the progress."""
        return 0

    @staticmethod
    def _input_topics(stage: StageSpec, committed: Mapping[TopicPartition, int]) -> Sequence[str]:
        """Return the topics that the group of the stage reads inputs from."""
        return stage.reads

    def open_transactions(self, topics: Sequence[str], groups: Sequence[str]) -> list[str]:
        """A transaction is open if the last stable offset is below the high watermark."""
        ends = dict(self._cluster.log_offsets(topics))
        offsets_topic_partitions = {self._cluster.offsets_partition(group) for group in groups}
        if offsets_topic_partitions:
            internal = self._cluster.log_offsets(sorted({topic for topic, _ in offsets_topic_partitions}))
            ends |= {
                topic_partition: internal[topic_partition]
                for topic_partition in offsets_topic_partitions
                if topic_partition in internal
            }
        return [f"{t}/{p} at {stable}" for (t, p), (_, stable, high) in ends.items() if stable < high]

    def resolve_ends(self, topic_partitions: Sequence[TopicPartition]) -> None:
        """Do nothing: sentinels will mark the ends."""

    def mark_ends(self, topic_partitions: Sequence[TopicPartition]) -> None:
        """Write a sentinel into each partition."""
        write_sentinels(self._cluster.bootstrap, topic_partitions, MARK_TIMEOUT_S)


class OffsetEndMarkers(SentinelEndMarkers):
    """An `EndMarkers` for custom pipelines: it reads the end offsets, and writes nothing into the user's topics."""

    def __init__(
        self, cluster: Cluster, ask: AskProgress | None = None, words: Mapping[str, str] = {}
    ) -> None:
        """Keep how to ask for the progress of stages with `[stage.progress]`.

        Args:
            cluster: The cluster.
            ask: Runs the command of such a stage.
            words: By stage: how messages name the command.
        """
        super().__init__(cluster)
        self._ask = ask
        self._words = words
        self.progress: dict[str, StageProgress] = {}
        # By stage: the end offsets of its inputs, and the number of its inputs below them.
        self._totals: dict[str, tuple[Mapping[TopicPartition, tuple[int, int, int]], int]] = {}
        self.end_offsets: Mapping[TopicPartition, int] = {}
        # By stage: the high watermarks of its outputs, and the time since which they are unchanged.
        self._last_written: dict[str, tuple[Mapping[TopicPartition, int], float]] = {}

    def inputs_left(self, stage: StageSpec, starting: bool = False, ended: bool = False) -> int | None:
        """For a stage with a group: count the inputs that the group has not committed.

        For a stage with `[stage.progress]`: count the inputs that it has not processed, as its command prints it.

        For another stage: 0 after it has written nothing for `idle_s`, and None before that. A stage that is
        starting is not idle.
        """
        if stage.group is not None:
            return super().inputs_left(stage)
        if stage.progress:
            return self._left_by_progress(stage, ended)
        if starting:
            self._last_written.pop(stage.name, None)
            self._last_seen[stage.name] = "an instance of it is not ready yet"
            return None
        try:
            high_watermarks = {
                topic_partition: high
                for topic_partition, (_, _, high) in self._cluster.log_offsets(stage.writes).items()
            }
        except WaitTimeout as error:
            self._last_seen[stage.name] = str(error)
            return None
        self._last_seen[stage.name] = f"its output topics end at {sum(high_watermarks.values())} records"
        previous, since_s = self._last_written.get(stage.name, ({}, 0.0))
        if high_watermarks != previous:
            self._last_written[stage.name] = (high_watermarks, time.monotonic())
            return None
        return 0 if time.monotonic() - since_s >= stage.idle_s else None

    def _left_by_progress(self, stage: StageSpec, ended: bool) -> int | None:
        """Run the command of the stage, and count the inputs after the printed positions."""
        assert self._ask is not None, "a stage has [stage.progress], so the run has its command"
        before = self.progress.get(stage.name, StageProgress())
        try:
            text = self._ask(stage)
            ends = self._cluster.log_offsets(stage.reads)
            printed = read_progress(text, stage, ends, self._words.get(stage.name, "its command"))
        except ProgressNotKnown as error:
            self._last_seen[stage.name] = str(error)
            if not ended or before.left is None:
                self.progress[stage.name] = structs.replace(before, left=None, not_known=str(error))
                return None
            printed, ends = before, self._cluster.log_offsets(stage.reads)
        except WaitTimeout as error:
            self._last_seen[stage.name] = str(error)
            return None
        try:
            if printed.processed is None:
                left = self._count(stage, printed.by_partition, ends)
            else:
                left = self._count_others(stage, printed.processed, ends)
        except WaitTimeout as error:
            self._last_seen[stage.name], left = str(error), None
        why = self._last_seen[stage.name] if left is None else ""
        self.progress[stage.name] = structs.replace(printed, left=left, not_known=why)
        return left

    def _count_others(
        self, stage: StageSpec, processed: int, ends: Mapping[TopicPartition, tuple[int, int, int]]
    ) -> int | None:
        """Count the visible inputs without those that are processed. None: not known. Raises `WaitTimeout`."""
        counted_to, total = self._totals.get(stage.name, ({}, 0))
        if counted_to != ends:
            if self._is_open(stage, ends):
                return None
            starts = {partition: start for partition, (start, stable, _) in ends.items() if start < stable}
            total = count_unread(self._cluster.bootstrap, starts)
            self._totals[stage.name] = (ends, total)
        words = f"{self._words.get(stage.name, 'its command')} printed {processed}, and it has {total} inputs"
        if processed > total:
            self._last_seen[stage.name] = f"{words}: each input must be counted once"
            return None
        self._last_seen[stage.name] = words
        return total - processed

    def outputs_written(self, stage: StageSpec) -> int:
        """For a stage without a group: the sum of high watermarks at the last call of `inputs_left`, or of positions.

        Otherwise 0.
        """
        if stage.name in self.progress:
            return self.progress[stage.name].total
        return sum(self._last_written.get(stage.name, ({}, 0.0))[0].values())

    @staticmethod
    def _input_topics(stage: StageSpec, committed: Mapping[TopicPartition, int]) -> Sequence[str]:
        """Return the declared topics, and the internal topics that the group has committed offsets for."""
        return sorted({*stage.reads, *(topic for topic, _ in committed)})

    def resolve_ends(self, topic_partitions: Sequence[TopicPartition]) -> None:
        """Read the current end offsets."""
        ends = self._cluster.log_offsets(sorted({topic for topic, _ in topic_partitions}))
        self.end_offsets = {topic_partition: ends[topic_partition][2] for topic_partition in topic_partitions}

    def mark_ends(self, topic_partitions: Sequence[TopicPartition]) -> None:
        """Do nothing: the topics belong to the user."""


def _behind(
    committed: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, tuple[int, int, int]]
) -> dict[TopicPartition, int]:
    """For each partition with unprocessed inputs, return the offset of the first one."""
    positions = {
        topic_partition: max(committed.get(topic_partition, -1), start)
        for topic_partition, (start, _, _) in ends.items()
    }
    return {
        topic_partition: position
        for topic_partition, position in positions.items()
        if position < ends[topic_partition][1]
    }
