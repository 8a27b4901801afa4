"""Exactly once: one transaction for each batch, with the outputs and the offsets of its inputs (KIP-98, KIP-447)."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from harness.model.pipeline import TopicPartition
from harness.model.vocabulary import Outcome, WorkerStep
from harness.record.events import Invoked
from harness.record.naming import operation_name
from harness.roles.transactions import TransactionalProducer
from workloads.loop.delivery import PROCESS_STRIDE, OutputBatch, WorkerContext, commit_offsets
from workloads.loop.plain import PlainProducer
from workloads.loop.side_effect import SideEffects
from workloads.loop.unusual import ExtraContents, again, hold_until_aborted, note
from workloads.model.workload import Output, pinned_id


class TransactionSender:
    """Puts batches into transactions of a producer. The policy makes it wrong on purpose."""

    def __init__(self, post: WorkerContext) -> None:
        self._post = post
        self._stranger = (
            None if post.policy.member_metadata else post.client.unsubscribed_consumer(post.consumer_settings)
        )
        self._plain = PlainProducer(post) if post.policy.outside else None
        table = post.policy.side_effect
        self._side = SideEffects(post, table) if table is not None else None

    def producer(self, transactional_id: str) -> TransactionalProducer:
        """A producer that has this id."""
        post = self._post
        return TransactionalProducer(
            post.client,
            post.producer_settings,
            transactional_id,
            post.journal,
            post.control,
            post.policy.handling,
        )

    def transact(self, producer: TransactionalProducer, parcel: OutputBatch) -> Outcome:
        """Send the outputs and the offsets in one transaction, and end it as asked."""
        post = self._post
        producer.open(post.process)
        if not producer.usable:  # told to stop before there was one: nothing was done
            return Outcome.FAIL
        if post.policy.offsets == "before-transaction":
            commit_offsets(post, parcel.positions)
        if self._plain is not None:
            self._plain.send(parcel.only(self._outside))
            parcel = parcel.without(self._outside)
        if parcel.beside is not None:
            self._beside(producer, parcel)
            producer.open(post.process)
            if not producer.usable:
                return Outcome.FAIL
        op = post.journal.number()
        post.journal.write(
            Invoked(
                "txn",
                post.process,
                op,
                asked=parcel.asked,
                transactional_id=producer.transactional_id,
                sends=parcel.as_sends(),
                claims=parcel.claims,
            )
        )
        reach = partial(post.control.pause_at, asked=parcel.asked, claims=parcel.in_hand)
        with producer.transaction(op, post.process, len(parcel.planned)) as txn:
            txn.begin()
            parcel.hand_over(txn, post.journal, op, post.policy)
            txn.flush()
            if self._side is not None:
                self._side.write(parcel)
            reach(WorkerStep.AFTER_SEND)
            if post.policy.offsets == "in-transaction":
                metadata = operation_name(post.journal.name, op)
                txn.send_offsets(parcel.positions.positions_to_commit(metadata), self._membership())
                reach(WorkerStep.AFTER_OFFSETS)
            if parcel.asked == "abort":
                txn.abort()
            else:
                reach(WorkerStep.BEFORE_COMMIT)
                if parcel.overruns:
                    hold_until_aborted(post, txn, parcel)
                txn.commit(
                    partial(reach, WorkerStep.WHILE_COMMITTING),
                    post.control.is_armed(WorkerStep.WHILE_COMMITTING),
                )
        if txn.outcome is Outcome.OK:
            reach(WorkerStep.AFTER_COMMIT)
            if post.policy.offsets == "after-commit":
                commit_offsets(post, parcel.positions, op)
        post.fenced += txn.fenced
        return txn.outcome

    def _membership(self) -> Any:
        return (self._stranger or self._post.consumer).membership()

    def _beside(self, producer: TransactionalProducer, parcel: OutputBatch) -> None:
        """Commit a transaction with nothing in it, or with offsets or an output alone. It claims no input."""
        post, offsets = self._post, parcel.beside == ExtraContents.OFFSETS
        planned = [note(post, post.notes)] if parcel.beside == ExtraContents.OUTPUTS and post.notes else []
        alone = replace(parcel, planned=planned)
        op, own = post.journal.number(), producer.transactional_id
        post.journal.write(
            Invoked("txn", post.process, op, asked="commit", transactional_id=own, sends=alone.as_sends())
        )
        with producer.transaction(op, post.process, len(planned)) as txn:
            txn.begin()
            alone.hand_over(txn, post.journal, op)
            txn.flush()
            if offsets and post.policy.offsets == "in-transaction":
                txn.send_offsets(again(parcel, operation_name(post.journal.name, op)), self._membership())
            txn.commit(lambda: None, struck=False)
        if txn.outcome is Outcome.INFO:
            post.process += PROCESS_STRIDE
        post.fenced += txn.fenced

    def _outside(self, output: Output) -> bool:
        return output.output_name in self._post.policy.outside


class PerWorkerTransactions:
    """A `Deliverer`: one producer for each worker, whose transactional id outlives it."""

    def __init__(self, post: WorkerContext, transactional_id: str) -> None:
        self._post = post
        self._transactor = TransactionSender(post)
        self._producer = self._transactor.producer(transactional_id)

    def open(self) -> None:
        """Initialise the transactional id, unless that is done."""
        self._producer.open(self._post.process)

    def moved(self, gained: bool, places: Sequence[TopicPartition]) -> None:
        """The producer is the same for every partition."""

    def parcels(self, parcel: OutputBatch) -> Sequence[OutputBatch]:
        """One transaction for all of it."""
        return (parcel,)

    def deliver(self, parcel: OutputBatch) -> Outcome:
        """One transaction."""
        return self._transactor.transact(self._producer, parcel)


class PerPartitionTransactions:
    """A `Deliverer`: one producer for each input partition, which a worker has as long as it has the partition.

    It is how exactly-once was done before KIP-447: the partition's next owner takes its transactional id, and so
    fences the last one, whatever the group knows.
    """

    def __init__(self, post: WorkerContext, suffix: str = "") -> None:
        self._post = post
        self._suffix = suffix  # of each transactional id
        self._transactor = TransactionSender(post)
        self._producers: dict[TopicPartition, TransactionalProducer] = {}
        self._kept: list[
            TransactionalProducer
        ] = []  # of partitions that went away; a right worker keeps none

    def open(self) -> None:
        """There is nothing to open before the first partition comes."""

    def moved(self, gained: bool, places: Sequence[TopicPartition]) -> None:
        """Have a producer for each partition that comes, and give up that of each that goes."""
        for place in places:
            if gained and self._kept:
                self._producers[place] = self._kept.pop()
            elif gained:
                self._of(place).open(self._post.process)
            elif (producer := self._producers.pop(place, None)) is not None:
                if self._post.policy.keeps_pins:
                    self._kept.append(producer)
                else:
                    producer.close()

    def parcels(self, parcel: OutputBatch) -> Sequence[OutputBatch]:
        """One transaction for each input partition."""
        return parcel.by_place()

    def deliver(self, parcel: OutputBatch) -> Outcome:
        """A transaction of the partition's own producer."""
        (place,) = parcel.positions.partitions.values()
        return self._transactor.transact(self._of(place), parcel)

    def _of(self, place: TopicPartition) -> TransactionalProducer:
        if place not in self._producers:
            topic, number = place
            self._producers[place] = self._transactor.producer(pinned_id(topic, number) + self._suffix)
        return self._producers[place]
