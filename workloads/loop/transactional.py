"""Exactly once: one transaction for each batch, with the outputs and the offsets of its inputs (KIP-98, KIP-447)."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from harness.databases.interface import DatabaseError
from harness.model.pipeline import TopicPartition
from harness.model.vocabulary import Outcome, WorkerStep
from harness.record.events import Completed, Invoked
from harness.record.naming import operation_name
from harness.roles.transactions import TransactionalProducer
from workloads.loop.delivery import PROCESS_STRIDE, OutputBatch, PendingOutput, WorkerContext, commit_offsets
from workloads.loop.plain import PlainProducer
from workloads.loop.projection import effect_of, store_of
from workloads.loop.unusual import ExtraContents, first_offsets, hold_until_aborted, output_without_input
from workloads.model.workload import Output, pinned_id

CHARGE = "charge"
"""The name of the output of `SideEffects`."""


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
        if txn.outcome is Outcome.OK:
            reach(WorkerStep.AFTER_COMMIT)
            if context.policy.offsets == "after-commit":
                commit_offsets(context, output_batch.positions, op)
        context.fenced += txn.fenced
        return txn.outcome

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
