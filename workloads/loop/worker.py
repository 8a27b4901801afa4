"""The consume-transform-produce loop: poll a batch, transform it, deliver it, and rewind after a failure.

Kafka's documentation recommends this loop. After a failure the consumer seeks back to the first offsets of the batch.
After an outcome of info it does not know the committed offsets, so it requests them from the group. A defect in the
`Policy` makes the loop wrong.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random

from harness.clients.interface import (
    DEFAULT_GROUP,
    RETRY_S,
    TRANSACTION_TIMEOUT_MS,
    Client,
    ClientError,
    ClientRecord,
    ConsumerSettings,
    ErrorMeaning,
    GroupConsumer,
    GroupSettings,
    PartitionOffset,
    as_input,
)
from harness.databases.interface import Database
from harness.model.pipeline import TopicPartition
from harness.model.vocabulary import Isolation, Outcome, WorkerStep
from harness.processes.messages import Counts, Report
from harness.record.events import Assigned, ErrorNoted, Polled
from harness.record.journal import Journal
from harness.record.naming import partition_key
from harness.roles.batch_offsets import COMMITTED_TIMEOUT_S, BatchOffsets
from harness.roles.control import Control
from workloads.loop.delivery import PROCESS_STRIDE, Deliverer, OutputBatch, PendingOutput, WorkerContext
from workloads.loop.plain import CommitThenSend, SendThenCommit
from workloads.loop.stored import KeyedDelivery, ProjectionDelivery
from workloads.loop.transactional import PerPartitionTransactions, PerWorkerTransactions, UnusualShares
from workloads.model.policy import Delivery, Policy
from workloads.model.workload import Aggregate, Output, WorkloadStage

RESTORE_TIMEOUT_S = 45.0
"""It is longer than a transaction can stay open."""
OUTPUT_NAME = "sum"


@dataclass(frozen=True)
class WorkerSettings:
    """The settings of one worker."""

    bootstrap: str
    group: str | None  # None: its stage has no group
    transactional_id: str | None  # stays the same after a restart; None: the worker uses no transactions
    process: int
    txn_size: int
    abort_share: float
    seed: int
    policy: Policy
    delivery: Delivery = Delivery.TRANSACTIONS
    stage_index: int = 0  # position of its stage in the workload, from 0
    partitions: int = 0  # of each topic
    compression: str = "none"
    largest_bytes: int | None = None  # the largest record; None: the client's default limit
    txn_timeout_ms: int = TRANSACTION_TIMEOUT_MS
    shares: UnusualShares = field(default_factory=UnusualShares)  # shares of unusual transactions
    group_settings: GroupSettings = DEFAULT_GROUP


class Worker:
    """One worker of one stage."""

    def __init__(
        self,
        stage: WorkloadStage,
        settings: WorkerSettings,
        client: Client,
        journal: Journal,
        control: Control,
        store: Database | None = None,
    ) -> None:
        self.stage = stage
        self.settings = settings
        self.journal = journal
        self.control = control
        self.counts = Counts()
        self.rng = Random(f"{settings.seed}/{journal.name}")
        policy = settings.policy
        isolation = policy.isolation(settings.stage_index, stage.promised)
        self.context = WorkerContext(
            bootstrap=settings.bootstrap,
            client=client,
            policy=policy,
            journal=journal,
            control=control,
            consumer_settings=ConsumerSettings(
                settings.bootstrap,
                settings.group or "",
                journal.name,
                isolation,
                max_records=settings.txn_size,
                auto_commit=policy.offsets == "auto",
                group_settings=settings.group_settings,
            ),
            process=settings.process,
            store=store,
            compression=settings.compression,
            largest_bytes=settings.largest_bytes,
            txn_timeout_ms=settings.txn_timeout_ms,
            notes=stage.notes,
        )
        self.deliverer = self._make_deliverer()
        aggregate = None if settings.delivery.stored else stage.aggregate
        self.sums = (
            KeySums(aggregate, client, settings.bootstrap, journal.name, policy.restore_isolation)
            if aggregate
            else None
        )
        self.context.consumer = self._new_consumer()

    def run(self) -> None:
        """Work until the run stops the worker or replaces it."""
        self.deliverer.open()
        self.control.report(Report(ready=True))
        while not self.control.stopping and not self.control.replaced:
            self.control.listen()
            self.turn()
        self.context.consumer.close()

    def turn(self) -> None:
        """Run one batch: poll, transform, deliver."""
        self.control.pause_at(WorkerStep.BEFORE_POLL, intended_end="commit")
        call_ns = self.journal.now_ns()
        batch = self.context.consumer.poll(self.settings.txn_size, 0.2)
        if self._consumer_failed:  # drop the batch: the next consumer starts at the committed offsets
            self._renew_consumer()
            return
        positions = BatchOffsets.of(batch)
        if not batch or (self.sums is not None and not self.sums.are_restored(positions.partitions.values())):
            return  # sums are missing only if the run stopped the worker during a restore
        self._record_poll(call_ns, batch)
        intended_end = "abort" if self.rng.random() < self.settings.abort_share else "commit"
        self.control.pause_at(WorkerStep.AFTER_POLL, intended_end=intended_end, claims=positions.claims)
        outputs = self._plan(batch)
        self.control.pause_at(WorkerStep.AFTER_TRANSFORM, intended_end=intended_end, claims=positions.claims)
        for output_batch in self.deliverer.split(self._output_batch(outputs, positions, intended_end)):
            outcome = self.deliverer.deliver(output_batch)
            self._after_delivery(
                outcome, intended_end, output_batch.positions, output_batch.positions.count(batch)
            )

    def _output_batch(
        self, outputs: Sequence[PendingOutput], positions: BatchOffsets, intended_end: str
    ) -> OutputBatch:
        """Make the batch, and draw which unusual transactions belong to it."""
        shares = self.settings.shares
        preceding = shares.draw_preceding(self.rng, self.stage.notes)
        return OutputBatch(
            outputs,
            positions,
            intended_end,
            preceding,
            intended_end == "commit" and shares.overruns(self.rng),
        )

    def _plan(self, batch: Sequence[ClientRecord]) -> list[PendingOutput]:
        """Return the outputs of these inputs."""
        if self.sums is not None:
            return self.sums.plan(batch)
        return [
            PendingOutput((record,), output)
            for record in batch
            for output in self.stage.transform(as_input(record))
        ]

    def _make_deliverer(self) -> Deliverer:
        match self.settings.delivery:
            case Delivery.STORED:
                return ProjectionDelivery(
                    self.context, self.stage.aggregate.topic if self.stage.aggregate else None
                )
            case Delivery.KEYED:
                return KeyedDelivery(self.context)
            case Delivery.TRANSACTIONS:
                return PerWorkerTransactions(self.context, self._transactional_id())
            case Delivery.PINNED:
                stable = self.settings.policy.stable_id
                return PerPartitionTransactions(
                    self.context, "" if stable else f"-{self.rng.getrandbits(64):x}"
                )
            case Delivery.AT_MOST_ONCE:
                return CommitThenSend(self.context)
            case Delivery.IDEMPOTENT | Delivery.AT_LEAST_ONCE as delivery:
                return SendThenCommit(self.context, idempotent=delivery is Delivery.IDEMPOTENT)
            case Delivery.MIXED | Delivery.RELAYED | Delivery.PROGRAMS | Delivery.PROGRAMS_OF_MEMBERS as mode:
                raise ValueError(f"{mode} is delivered by another class of workers")

    def _transactional_id(self) -> str:
        own_id = self.settings.transactional_id
        if own_id is None:
            return f"{self.journal.name}-{self.rng.getrandbits(64):x}"
        if not self.settings.policy.stable_id:  # it still begins with the run's tag
            return f"{own_id}.{self.journal.name.rpartition('.')[2]}-{self.rng.getrandbits(64):x}"
        return own_id

    def _after_delivery(
        self, outcome: Outcome, intended_end: str, positions: BatchOffsets, inputs: int
    ) -> None:
        """Count the outcome, and move the consumer to the group's offsets after a failure."""
        self.counts.end(outcome, intended_end, inputs)
        if outcome is Outcome.INFO:
            self.context.process += PROCESS_STRIDE
        self.counts.fenced = self.context.fenced
        self.control.report(Report(counts=self.counts))
        treated_as_ok = outcome is Outcome.INFO and self.settings.policy.treats_unknown_as_ok
        if outcome is not Outcome.OK and self.settings.policy.rewind and not treated_as_ok:
            committed = positions.first_positions if outcome is Outcome.FAIL else None
            try:
                positions.rewind(self.context.consumer, committed)
            except ClientError as error:
                self.journal.write(ErrorNoted(error=str(error)))
                self._renew_consumer()
        if self.sums is not None:
            self._retry_until_done(partial(self.sums.apply_outcome, outcome))

    def _new_consumer(self) -> GroupConsumer:
        self._consumer_failed = False
        context = self.context
        return context.client.consumer(context.consumer_settings, self.stage.reads, self, self._on_error)

    def _renew_consumer(self) -> None:
        """Replace a consumer that failed.

        A worker that was replaced creates no consumer, because as a static member it would fence its replacement.
        """
        if not self.control.replaced:
            self.context.consumer.close()
            self.context.consumer = self._new_consumer()

    def on_assigned(self, topic_partitions: Sequence[TopicPartition]) -> Sequence[PartitionOffset]:
        """Return the committed offset of each gained partition. Wait until pending transactional offsets are decided.

        If an open transaction has offsets for a partition, the coordinator answers UNSTABLE_OFFSET_COMMIT. After this
        error librdkafka starts at the beginning of the partition. So the worker itself requests the offsets and
        passes them to the client.
        """
        self.deliverer.partitions_changed(
            True, topic_partitions
        )  # a new producer for a partition ends the open transaction of its last owner
        if self.sums is not None:
            for topic_partition in topic_partitions:
                self._retry_until_done(partial(self.sums.restore, topic_partition))
        starts = self._starts(topic_partitions)
        known = {(position.topic, position.partition): position.offset for position in starts}
        keys = [partition_key(*topic_partition) for topic_partition in topic_partitions]
        self.journal.write(
            Assigned(
                self.context.process,
                True,
                keys,
                [known.get(topic_partition) for topic_partition in topic_partitions],
            )
        )
        return starts

    def on_revoked(self, topic_partitions: Sequence[TopicPartition]) -> None:
        """Record the lost partitions, and release their producers and sums."""
        keys = [partition_key(*topic_partition) for topic_partition in topic_partitions]
        self.journal.write(Assigned(self.context.process, False, keys))
        self.deliverer.partitions_changed(False, topic_partitions)
        if self.sums is not None:
            for topic_partition in topic_partitions:
                self.sums.forget(topic_partition)

    def _starts(self, topic_partitions: Sequence[TopicPartition]) -> list[PartitionOffset]:
        """Return the committed offsets. The list is empty if the consumer failed or the run stops the worker."""
        while not self.control.stopping and not self._consumer_failed:
            try:
                return self.context.consumer.committed(topic_partitions, COMMITTED_TIMEOUT_S)
            except ClientError as error:
                self._on_error(error)
                self.control.listen(RETRY_S)
        return []

    def _retry_until_done(self, act: Callable[[], None]) -> None:
        """Call `act` until it succeeds or the run stops the worker."""
        while not self.control.stopping:
            self.control.listen()
            try:
                act()
            except ClientError as error:
                self.journal.write(ErrorNoted(error=str(error)))
                self.control.listen(RETRY_S)
            else:
                return

    def _record_poll(self, call_ns: int, batch: Sequence[ClientRecord]) -> None:
        op = self.journal.number()
        self.journal.write(Polled(self.context.process, op, call_ns, BatchOffsets.delivered_records(batch)))

    def _on_error(self, error: ClientError) -> None:
        """Record an error of the consumer. After a fatal error the consumer will be replaced."""
        self.journal.write(ErrorNoted(error=str(error)))
        self._consumer_failed = self._consumer_failed or error.meaning in (
            ErrorMeaning.FATAL,
            ErrorMeaning.FENCED,
        )


class KeySums:
    """The sums of one worker's partitions. Each transaction changes them.

    A worker keeps the sums of the keys in its partitions only in memory. A new owner of a partition reads the committed
    records of the topic of sums, up to the end that its log has at that time. It waits for a transaction that a dead
    worker left open, because records of a later owner can follow it.
    """

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
