"""Deliveries without transactions, for pipelines that promise less than exactly-once."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from harness.clients.interface import ClientError, ProducerClient
from harness.model.pipeline import TopicPartition
from harness.model.vocabulary import Outcome, WorkerStep
from harness.record.events import Completed, Invoked
from harness.roles.transactions import DeliveryFailed, RecordSender
from workloads.loop.delivery import OutputBatch, WorkerContext, commit_offsets, record_uncommitted


class PlainProducer:
    """Sends records without transactions. After an error it creates a new producer."""

    def __init__(self, context: WorkerContext, *, idempotent: bool = True, retries: bool = True) -> None:
        self._context = context
        self._settings = replace(context.producer_settings, idempotent=idempotent, retries=retries)
        self._producer: ProducerClient | None = None

    def open(self) -> ProducerClient:
        """Return the producer; create it if there is none."""
        if self._producer is None:
            self._producer = self._context.client.plain_producer(self._settings)
        return self._producer

    def send(self, output_batch: OutputBatch) -> Outcome:
        """Send every output and wait for all acknowledgements.

        Return info after an error, because it is not known which records are in the log.
        """
        if not output_batch.outputs:
            return Outcome.OK
        context = self._context
        op = context.journal.number()
        context.journal.write(Invoked("send", context.process, op, sends=output_batch.as_sends()))
        producer = self.open()
        sending = RecordSender(producer, len(output_batch.outputs))
        outcome, error_text = Outcome.OK, None
        try:
            output_batch.send_to(sending, context.journal, op, context.policy)
            sending.flush()
        except (ClientError, DeliveryFailed) as error:
            outcome, error_text = Outcome.INFO, str(error)
            producer.discard()
            self._producer = None
        context.journal.write(
            Completed(outcome, "send", context.process, op, acks=sending.acks, error=error_text)
        )
        return outcome


class _SharedProducer:
    """Base of deliverers that use one producer for all input partitions."""

    def partitions_changed(self, gained: bool, topic_partitions: Sequence[TopicPartition]) -> None:
        pass  # the producer is the same for every partition

    def split(self, output_batch: OutputBatch) -> Sequence[OutputBatch]:
        return (output_batch,)


class SendThenCommit(_SharedProducer):
    """A `Deliverer` for at-least-once."""

    def __init__(self, context: WorkerContext, *, idempotent: bool) -> None:
        self._context = context
        self._plain = PlainProducer(context, idempotent=idempotent and context.policy.idempotent)

    def open(self) -> None:
        self._plain.open()

    def deliver(self, output_batch: OutputBatch) -> Outcome:
        """Send the outputs. Commit the offsets after all outputs are acknowledged."""
        context = self._context
        reach = partial(
            context.control.pause_at, intended_end=output_batch.intended_end, claims=output_batch.claims
        )
        outcome = self._plain.send(output_batch)
        if outcome is not Outcome.OK:
            record_uncommitted(context, output_batch.positions, "not every output was acknowledged")
            return outcome
        reach(WorkerStep.AFTER_SEND)
        outcome = commit_offsets(context, output_batch.positions)
        if outcome is Outcome.OK:
            reach(WorkerStep.AFTER_COMMIT)
        return outcome


class CommitThenSend(_SharedProducer):
    """A `Deliverer` for at-most-once."""

    def __init__(self, context: WorkerContext) -> None:
        self._context = context
        self._plain = PlainProducer(context, idempotent=False, retries=False)

    def open(self) -> None:
        self._plain.open()

    def deliver(self, output_batch: OutputBatch) -> Outcome:
        """Commit the offsets. If that succeeded, send the outputs, without retries."""
        context = self._context
        reach = partial(
            context.control.pause_at, intended_end=output_batch.intended_end, claims=output_batch.claims
        )
        outcome = commit_offsets(context, output_batch.positions)
        if outcome is Outcome.OK:
            reach(WorkerStep.AFTER_COMMIT)
            self._plain.send(output_batch)
            reach(WorkerStep.AFTER_SEND)
        return outcome
