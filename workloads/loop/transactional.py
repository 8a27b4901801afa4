"""Exactly once: one transaction for each batch, with the outputs and the offsets of its inputs (KIP-98, KIP-447).

Some transactions are unusual, but legal: they are empty, they have only offsets or only outputs, or they stay open for
longer than their time-out.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from random import Random
from typing import Any

from harness.clients.interface import ClientError, PartitionOffset
from harness.common.errors import WaitTimeout
from harness.common.waiting import wait_for
from harness.databases.interface import DatabaseError
from harness.model.pipeline import TopicPartition
from harness.model.vocabulary import Outcome, WorkerStep
from harness.record.events import Completed, ErrorNoted, Invoked
from harness.record.naming import operation_name
from harness.roles.transactions import Transaction, TransactionalProducer
from workloads.loop.delivery import PROCESS_STRIDE, OutputBatch, PendingOutput, WorkerContext, commit_offsets
from workloads.loop.plain import PlainProducer
from workloads.loop.stored import effect_of, store_of
from workloads.model.workload import Output, pinned_id

CHARGE = "charge"
"""The name of the output of `SideEffects`."""
NOTE = "note"
"""The output name of an output without an input."""
LATE_S = 20.0
"""How long to wait for an abort after the time-out. The coordinator looks for expired transactions only every few
seconds.
"""
OFFSET_TIMEOUT_S = 5.0


class ExtraContents(StrEnum):
    """The contents of an extra transaction that is committed before that of a batch."""

    NOTHING = "nothing"
    OFFSETS = "offsets"  # the group's current offsets again
    OUTPUTS = "outputs"  # an output without an input


@dataclass(frozen=True)
class UnusualShares:
    """The share of batches that follow an extra transaction, and of those whose transaction exceeds its time-out."""

    empty: float = 0.0
    overrun: float = 0.0

    def draw_preceding(self, rng: Random, notes: str | None) -> ExtraContents | None:
        """Draw the contents of an extra transaction to commit before a batch. None: there is no extra transaction.

        `notes` is the topic for outputs without an input; None: the stage has no such topic.
        """
        if not self.empty or rng.random() >= self.empty:
            return None
        return rng.choice(
            [ExtraContents.NOTHING, ExtraContents.OFFSETS, *([ExtraContents.OUTPUTS] if notes else [])]
        )

    def overruns(self, rng: Random) -> bool:
        """Draw whether the transaction of a batch is held until its time-out has passed."""
        return bool(self.overrun) and rng.random() < self.overrun


class TransactionSender:
    """Delivers batches in transactions, correctly unless the policy has a defect."""

    def __init__(self, context: WorkerContext) -> None:
        self._context = context
        self._unsubscribed_consumer = (
            None
            if context.policy.member_metadata
            else context.client.unsubscribed_consumer(context.consumer_settings)
        )
        self._plain = PlainProducer(context) if context.policy.outside else None
        table = context.policy.side_effect
        self._side_effects = SideEffects(context, table) if table is not None else None

    def producer(self, transactional_id: str) -> TransactionalProducer:
        """Return a new producer with this transactional id."""
        context = self._context
        return TransactionalProducer(
            context.client,
            context.producer_settings,
            transactional_id,
            context.journal,
            context.control,
            context.policy.handling,
        )

    def transact(self, producer: TransactionalProducer, output_batch: OutputBatch) -> Outcome:
        """Send the outputs and the offsets in one transaction, and end it as intended."""
        context = self._context
        producer.open(context.process)
        if (
            not producer.usable
        ):  # the run stopped the worker before the initialisation succeeded, so nothing was done
            return Outcome.FAIL
        if context.policy.offsets == "before-transaction":
            commit_offsets(context, output_batch.positions)
        if self._plain is not None:
            self._plain.send(output_batch.only(self._is_sent_outside))
            output_batch = output_batch.without(self._is_sent_outside)
        if output_batch.preceding is not None:
            self._send_preceding(producer, output_batch)
            producer.open(context.process)
            if not producer.usable:
                return Outcome.FAIL
        op = context.journal.number()
        context.journal.write(
            Invoked(
                "txn",
                context.process,
                op,
                asked=output_batch.intended_end,
                transactional_id=producer.transactional_id,
                sends=output_batch.as_sends(),
                claims=output_batch.claims,
            )
        )
        reach = partial(
            context.control.pause_at,
            intended_end=output_batch.intended_end,
            claims=output_batch.claims_in_progress,
        )
        with producer.transaction(op, context.process, len(output_batch.outputs)) as txn:
            self._carry_out(txn, output_batch, op, reach)
        if txn.outcome is Outcome.OK:
            reach(WorkerStep.AFTER_COMMIT)
            if context.policy.offsets == "after-commit":
                commit_offsets(context, output_batch.positions, op)
        context.fenced += txn.fenced
        return txn.outcome

    def _carry_out(
        self, txn: Transaction, output_batch: OutputBatch, op: int, reach: Callable[[WorkerStep], None]
    ) -> None:
        """Call the steps of a transaction. A defect in the policy leaves some out, or does more."""
        context = self._context
        txn.begin()
        output_batch.send_to(txn, context.journal, op, context.policy)
        txn.flush()
        if self._side_effects is not None:
            self._side_effects.write(output_batch)
        reach(WorkerStep.AFTER_SEND)
        if context.policy.offsets == "in-transaction":
            metadata = operation_name(context.journal.name, op)
            txn.send_offsets(output_batch.positions.positions_to_commit(metadata), self._membership())
            reach(WorkerStep.AFTER_OFFSETS)
        if output_batch.intended_end == "abort":
            txn.abort()
        else:
            reach(WorkerStep.BEFORE_COMMIT)
            if output_batch.overruns:
                hold_until_aborted(context, txn, output_batch)
            txn.commit(
                partial(reach, WorkerStep.WHILE_COMMITTING),
                context.control.is_armed(WorkerStep.WHILE_COMMITTING),
            )

    def _membership(self) -> Any:
        return (self._unsubscribed_consumer or self._context.consumer).membership()

    def _send_preceding(self, producer: TransactionalProducer, output_batch: OutputBatch) -> None:
        """Commit an extra transaction: empty, with offsets only, or with one output only. It claims no input."""
        context, with_offsets = self._context, output_batch.preceding == ExtraContents.OFFSETS
        outputs = (
            [output_without_input(context, context.notes)]
            if output_batch.preceding == ExtraContents.OUTPUTS and context.notes
            else []
        )
        extra_batch = replace(output_batch, outputs=outputs)
        op, transactional_id = context.journal.number(), producer.transactional_id
        context.journal.write(
            Invoked(
                "txn",
                context.process,
                op,
                asked="commit",
                transactional_id=transactional_id,
                sends=extra_batch.as_sends(),
            )
        )
        with producer.transaction(op, context.process, len(outputs)) as txn:
            txn.begin()
            extra_batch.send_to(txn, context.journal, op)
            txn.flush()
            if with_offsets and context.policy.offsets == "in-transaction":
                txn.send_offsets(
                    first_offsets(output_batch, operation_name(context.journal.name, op)), self._membership()
                )
            txn.commit(lambda: None, is_armed=False)
        if txn.outcome is Outcome.INFO:
            context.process += PROCESS_STRIDE
        context.fenced += txn.fenced

    def _is_sent_outside(self, output: Output) -> bool:
        return output.output_name in self._context.policy.outside


class PerWorkerTransactions:
    """A `Deliverer` with one producer for each worker. Its transactional id stays the same after a restart."""

    def __init__(self, context: WorkerContext, transactional_id: str) -> None:
        self._context = context
        self._sender = TransactionSender(context)
        self._producer = self._sender.producer(transactional_id)

    def open(self) -> None:
        """Initialise the transactional id, unless it is initialised already."""
        self._producer.open(self._context.process)

    def partitions_changed(self, gained: bool, topic_partitions: Sequence[TopicPartition]) -> None:
        pass  # the producer is the same for every partition

    def split(self, output_batch: OutputBatch) -> Sequence[OutputBatch]:
        return (output_batch,)

    def deliver(self, output_batch: OutputBatch) -> Outcome:
        return self._sender.transact(self._producer, output_batch)


class PerPartitionTransactions:
    """A `Deliverer` with one producer for each input partition. A worker has it while it owns the partition.

    Exactly-once worked like this before KIP-447: the next owner of a partition uses the same transactional id, and so
    fences the last owner. The group is not needed for that.
    """

    def __init__(self, context: WorkerContext, suffix: str = "") -> None:
        self._context = context
        self._suffix = suffix  # appended to each transactional id
        self._sender = TransactionSender(context)
        self._producers: dict[TopicPartition, TransactionalProducer] = {}
        self._reusable: list[
            TransactionalProducer
        ] = []  # producers of lost partitions; always empty without the defect `wrong-pin`

    def open(self) -> None:
        pass  # a producer is created when a partition is gained

    def partitions_changed(self, gained: bool, topic_partitions: Sequence[TopicPartition]) -> None:
        """Create a producer for each gained partition, and close the producer of each lost partition."""
        for topic_partition in topic_partitions:
            if gained and self._reusable:
                self._producers[topic_partition] = self._reusable.pop()
            elif gained:
                self._producer_of(topic_partition).open(self._context.process)
            elif (producer := self._producers.pop(topic_partition, None)) is not None:
                if self._context.policy.keeps_producers:
                    self._reusable.append(producer)
                else:
                    producer.close()

    def split(self, output_batch: OutputBatch) -> Sequence[OutputBatch]:
        """Return one batch for each input partition."""
        return output_batch.by_partition()

    def deliver(self, output_batch: OutputBatch) -> Outcome:
        """Deliver with the producer of the partition."""
        (topic_partition,) = output_batch.positions.partitions.values()
        return self._sender.transact(self._producer_of(topic_partition), output_batch)

    def _producer_of(self, topic_partition: TopicPartition) -> TransactionalProducer:
        if topic_partition not in self._producers:
            topic, number = topic_partition
            self._producers[topic_partition] = self._sender.producer(pinned_id(topic, number) + self._suffix)
        return self._producers[topic_partition]


class SideEffects:
    """The defect `side-effect`: a card is charged during the transaction, and an abort does not undo the charge.

    Writes a row for each input into a table of a database, immediately.
    """

    def __init__(self, context: WorkerContext, table: str) -> None:
        self._context = context
        self._store = store_of(context)
        self._table = table

    def write(self, output_batch: OutputBatch) -> None:
        """Charge once for every input of the batch."""
        context, inputs = self._context, {}
        for pending in output_batch.outputs:
            for record, position in zip(pending.sources, pending.input_positions, strict=True):
                inputs[position] = record
        charges = [
            PendingOutput((record,), Output(self._table, CHARGE, record.key(), b"charged"))
            for record in inputs.values()
        ]
        op = context.journal.number()
        sends = [charge.as_send() for charge in charges]
        context.journal.write(Invoked("send", context.process, op, sends=sends))
        outcome, error_text = Outcome.OK, None
        try:
            with self._store.transaction() as work:
                for n, charge in enumerate(charges):
                    work.add(effect_of(context, op, n, charge))
        except DatabaseError as error:
            outcome, error_text = Outcome.INFO, str(error)
        acks = [(0, None)] * len(charges) if outcome is Outcome.OK else None
        context.journal.write(Completed(outcome, "send", context.process, op, acks=acks, error=error_text))


def output_without_input(context: WorkerContext, topic: str) -> PendingOutput:
    """Return an output without an input."""
    return PendingOutput((), Output(topic, NOTE, context.journal.name.encode(), b"still here"))


def first_offsets(output_batch: OutputBatch, metadata: str) -> Sequence[PartitionOffset]:
    """Return the offsets at which the batch begins. The group has already committed them."""
    return [
        PartitionOffset(first.topic, first.partition, first.offset, metadata)
        for first in output_batch.positions.first_positions
        if first.offset is not None
    ]


def hold_until_aborted(context: WorkerContext, txn: Transaction, output_batch: OutputBatch) -> None:
    """Wait until the coordinator has aborted the transaction because of its time-out, or the run stops the worker.

    The abort is visible when the last stable offset is above that of a record of the transaction. If no record of the
    transaction is acknowledged, return at once.
    """
    position = _acknowledged_position(txn, output_batch)
    if position is None:
        return
    topic, partition, offset = position
    timeout_s = context.txn_timeout_ms / 1000 + LATE_S
    try:
        with context.client.last_stable_offset(
            context.bootstrap, context.journal.name, (topic, partition)
        ) as stable:

            def aborted() -> bool:
                context.control.listen()
                return context.control.stopping or stable(OFFSET_TIMEOUT_S) > offset

            wait_for(
                aborted,
                f"the abort of the transaction with the record {topic}/{partition} @ {offset}",
                timeout_s,
                every_s=0.2,
            )
    except (ClientError, WaitTimeout) as error:  # continue: the commit will show the outcome
        context.journal.write(ErrorNoted(op=txn.op, error=str(error)))


def _acknowledged_position(txn: Transaction, output_batch: OutputBatch) -> tuple[str, int, int] | None:
    """Return topic, partition and offset of an acknowledged record of the transaction, or None."""
    for pending, ack in zip(output_batch.outputs, txn.acks, strict=True):
        partition, offset = ack or (-1, None)
        if partition >= 0 and offset is not None:
            return pending.output.topic, partition, offset
    return None
