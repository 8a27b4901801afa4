"""The loop of the workload txn: transactions of random sends and polls in a random order.

A worker assigns itself the active keys and those that retired last. A read counts when its transaction has committed.
After any other end the worker seeks back, unless a defect in its `Policy` prevents that. At the end of the run a worker
reads every key to the end of its log, so that no acknowledged record stays unread.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random

from harness.clients.interface import (
    RETRY_S,
    Client,
    ClientError,
    ClientRecord,
    ConsumerSettings,
    ProducerSettings,
)
from harness.databases.interface import Database
from harness.model.pipeline import TopicPartition
from harness.model.vocabulary import VALUE_HEADER, Outcome, WorkerStep
from harness.processes.messages import Counts, Report
from harness.record.events import ErrorNoted, Invoked
from harness.record.journal import Journal
from harness.record.naming import digest, partition_key, value_name
from harness.roles.control import Control
from harness.roles.transactions import Transaction, TransactionalProducer
from workloads.loop.delivery import PROCESS_STRIDE
from workloads.loop.reading import InputReader
from workloads.loop.worker import WorkerSettings
from workloads.model.workload import WorkloadStage

POLL_SHARE = 0.5
"""The share of polls among the micro-operations."""
SIZE_PER_MICRO_OPERATION = 5
"""A transaction has at most `txn_size / SIZE_OF_MICRO` micro-operations."""
ENDS_TIMEOUT_S = 15.0
FINAL_POLLS_S = 45.0
"""It is longer than a transaction can stay open."""
ACTIVE_KEYS = 5
"""The number of keys to which workers send at a time."""
RETIRED_KEYS = 5
"""The number of retired keys that workers still poll."""
FULL_OFFSETS = 30
"""A key retires when its log is known to have this many offsets, markers included."""


@dataclass
class Keys:
    """The keys, in the order in which they are used.

    All workers read the same logs, so all workers get the same window, some of them a little later. When all keys are
    retired, the last ones stay active.
    """

    topic_partitions: Sequence[TopicPartition]
    _ends: dict[TopicPartition, int] = field(
        default_factory=dict
    )  # the offset after the highest known record

    def note_offset(self, topic_partition: TopicPartition, offset: int) -> None:
        """Note that the log of a key has a record at this offset."""
        self._ends[topic_partition] = max(self._ends.get(topic_partition, 0), offset + 1)

    def active(self) -> list[TopicPartition]:
        """Return the keys to which workers send now."""
        growing = [
            topic_partition
            for topic_partition in self.topic_partitions
            if self._ends.get(topic_partition, 0) < FULL_OFFSETS
        ]
        return (
            growing[:ACTIVE_KEYS]
            if len(growing) >= ACTIVE_KEYS
            else list(self.topic_partitions[-ACTIVE_KEYS:])
        )

    def window(self) -> list[TopicPartition]:
        """Return the active keys, and those that retired last."""
        active = set(self.active())
        numbers = [n for n, topic_partition in enumerate(self.topic_partitions) if topic_partition in active]
        return list(self.topic_partitions[max(0, numbers[0] - RETIRED_KEYS) : numbers[-1] + 1])


@dataclass(frozen=True)
class TransactionPlan:
    """A transaction to run."""

    micro: Sequence[TopicPartition | None]  # for each micro-operation: the key of a send, or None for a poll
    intended_end: str  # how it must end: commit or abort

    @property
    def sends(self) -> list[TopicPartition]:
        """The keys of its sends, in order."""
        return [topic_partition for topic_partition in self.micro if topic_partition is not None]


class MixedWorker:
    """One worker of a stage whose transactions send and poll at random."""

    def __init__(
        self,
        stage: WorkloadStage,
        settings: WorkerSettings,
        client: Client,
        journal: Journal,
        control: Control,
        store: Database | None = None,
    ) -> None:
        policy = settings.policy
        self.settings = settings
        self.journal = journal
        self.control = control
        self.counts = Counts()
        self.keys = Keys([(topic, number) for number in range(settings.partitions) for topic in stage.writes])
        consumer_settings = ConsumerSettings(
            settings.bootstrap,
            settings.group or "",
            journal.name,
            # The stage reads its own outputs, so the isolation of a downstream stage applies.
            policy.isolation(settings.stage_index + 1, stage.promised),
            max_records=settings.txn_size,
        )
        self.reading = InputReader(client, consumer_settings, journal, settings.process)
        self._client = client
        self._rng = Random(f"{settings.seed}/{journal.name}")
        self._producer = TransactionalProducer(
            client,
            ProducerSettings(
                settings.bootstrap,
                acks=policy.acks,
                compression=settings.compression,
                txn_timeout_ms=settings.txn_timeout_ms,
            ),
            settings.transactional_id or journal.name,
            journal,
            control,
            policy.handling,
        )

    def run(self) -> None:
        """Run transactions until the run stops the worker or replaces it. After a stop, read every key to its end."""
        self._producer.open(self.reading.process)
        self._learn_key_ends()
        self.control.report(Report(ready=True))
        while not self.control.stopping and not self.control.replaced:
            self.control.listen()
            self.turn()
        if not self.control.replaced:
            self.finish()
        self.reading.close()

    def turn(self) -> None:
        """Run one transaction."""
        process = self.reading.process
        self._producer.open(process)
        if not self._producer.usable or not self.reading.assign_only(self.keys.window()):
            return
        plan = self._draw()
        op = self.journal.number()
        self.journal.write(
            Invoked(
                "txn",
                process,
                op,
                asked=plan.intended_end,
                transactional_id=self._producer.transactional_id,
                sends=[[topic, None, self._digest(op, n)] for n, (topic, _) in enumerate(plan.sends)],
                micro=[topic_partition and partition_key(*topic_partition) for topic_partition in plan.micro],
            )
        )
        reach = partial(self.control.pause_at, intended_end=plan.intended_end)
        records: list[ClientRecord] = []
        with self._producer.transaction(op, process, len(plan.sends)) as txn:
            txn.begin()
            self._run_micro_operations(txn, plan, records)
            if plan.intended_end == "abort":
                txn.abort()
            else:
                reach(WorkerStep.BEFORE_COMMIT)
                while_committing = partial(reach, WorkerStep.WHILE_COMMITTING)
                txn.commit(while_committing, self.control.is_armed(WorkerStep.WHILE_COMMITTING))
        if txn.outcome is Outcome.OK:
            reach(WorkerStep.AFTER_COMMIT)
        self._after_transaction(txn, plan, records)

    def finish(self) -> None:
        """Read every key to the current end of its log, by polls outside any transaction."""
        deadline = time.monotonic() + FINAL_POLLS_S
        ends: dict[TopicPartition, int] | None = None
        keys_to_read: list[TopicPartition] = list(self.keys.topic_partitions)
        unread = keys_to_read
        self.control.report(Report(unread=len(unread)))  # if this process dies, its last report counts
        while unread and time.monotonic() < deadline:
            try:
                if ends is None:
                    ends = self._ends()
                    keys_to_read = [
                        topic_partition
                        for topic_partition, end in ends.items()
                        if self.reading.read_to.get(topic_partition, 0) < end
                    ]
                    unread = keys_to_read
                if unread and self.reading.assign_only(keys_to_read):
                    self.reading.count(self.reading.poll())
                    unread = self.reading.unread(ends)
            except ClientError as error:
                self.journal.write(ErrorNoted(error=str(error)))
        if unread:
            message = f"{len(unread)} keys were not read to their ends within {FINAL_POLLS_S:g} s, such as {unread[0]}"
            self.journal.write(ErrorNoted(error=message))
        self.control.report(Report(unread=len(unread)))

    def _draw(self) -> TransactionPlan:
        rng = self._rng
        active = self.keys.active()
        count = rng.randint(1, max(1, self.settings.txn_size // SIZE_PER_MICRO_OPERATION))
        micro = [None if rng.random() < POLL_SHARE else rng.choice(active) for _ in range(count)]
        return TransactionPlan(micro, "abort" if rng.random() < self.settings.abort_share else "commit")

    def _run_micro_operations(
        self, txn: Transaction, plan: TransactionPlan, records: list[ClientRecord]
    ) -> None:
        """Run the micro-operations in order. Sends are acknowledged before the next poll."""
        reach = partial(self.control.pause_at, intended_end=plan.intended_end)
        sent = 0
        for at, topic_partition in enumerate(plan.micro):
            if topic_partition is None:
                reach(WorkerStep.BEFORE_POLL)
                records += self.reading.poll(txn.op, at)
                reach(WorkerStep.AFTER_POLL)
                continue
            name = value_name(self.journal.name, txn.op, sent)
            key, content = self._record_content(txn.op, sent)
            txn.send(
                sent,
                topic_partition[0],
                key,
                content,
                [(VALUE_HEADER, name.encode())],
                partition=topic_partition[1],
            )
            sent += 1
            if at + 1 == len(plan.micro) or plan.micro[at + 1] is None:
                txn.flush()
                reach(WorkerStep.AFTER_SEND)

    def _record_content(self, op: int, n: int) -> tuple[bytes, bytes]:
        """Return key and value of a record."""
        return self.journal.name.encode(), b"%d %d" % (op, n)

    def _digest(self, op: int, n: int) -> int:
        return digest(*self._record_content(op, n), ())

    def _after_transaction(
        self, txn: Transaction, plan: TransactionPlan, records: Sequence[ClientRecord]
    ) -> None:
        """Count the transaction. If its reads do not count, seek back to the end of the reads that count."""
        for topic_partition, ack in zip(plan.sends, txn.acks, strict=True):
            if ack is not None and ack[1] is not None:
                self.keys.note_offset(topic_partition, ack[1])
        for record in records:
            self.keys.note_offset((record.topic(), record.partition()), record.offset())
        if txn.outcome is Outcome.OK or not self.settings.policy.rewind:
            self.reading.count(records)
        else:
            self.reading.seek_back()
        self.counts.end(txn.outcome, plan.intended_end, len(records))
        if txn.outcome is Outcome.INFO:
            self.reading.change_process(self.reading.process + PROCESS_STRIDE)
        self.counts.fenced += txn.fenced
        self.control.report(Report(counts=self.counts))

    def _learn_key_ends(self) -> None:
        """Read the log ends of the keys, because an earlier incarnation of this worker may have written to them."""
        while not self.control.stopping:
            self.control.listen()
            try:
                for topic_partition, end in self._ends().items():
                    self.keys.note_offset(topic_partition, end - 1)
            except ClientError as error:
                self.journal.write(ErrorNoted(error=str(error)))
                self.control.listen(RETRY_S)
            else:
                return

    def _ends(self) -> dict[TopicPartition, int]:
        return self._client.end_offsets(
            self.settings.bootstrap, self.journal.name, self.keys.topic_partitions, ENDS_TIMEOUT_S
        )
