"""Deliveries without transactions: what runs where nobody has turned exactly-once on."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from harness.clients.interface import ClientError, ProducerClient
from harness.model.pipeline import TopicPartition
from harness.model.vocabulary import Outcome, WorkerStep
from harness.record.events import Completed, Invoked
from harness.roles.sending import DeliveryFailed, RecordSender
from workloads.loop.delivery import OutputBatch, WorkerContext, commit_offsets, keep_offsets


class PlainProducer:
    """Sends records by a producer without transactions, made anew where it met an error."""

    def __init__(self, post: WorkerContext, *, idempotent: bool = True, retries: bool = True) -> None:
        self._post = post
        self._settings = replace(post.producer_settings, idempotent=idempotent, retries=retries)
        self._producer: ProducerClient | None = None

    def open(self) -> ProducerClient:
        """The producer."""
        if self._producer is None:
            self._producer = self._post.client.plain_producer(self._settings)
        return self._producer

    def send(self, parcel: OutputBatch) -> Outcome:
        """Send every output, and wait until each is acknowledged. An error leaves open what has arrived."""
        if not parcel.planned:
            return Outcome.OK
        post = self._post
        op = post.journal.number()
        post.journal.write(Invoked("send", post.process, op, sends=parcel.as_sends()))
        producer = self.open()
        sending = RecordSender(producer, len(parcel.planned))
        outcome, told = Outcome.OK, None
        try:
            parcel.hand_over(sending, post.journal, op, post.policy)
            sending.flush()
        except (ClientError, DeliveryFailed) as error:
            outcome, told = Outcome.INFO, str(error)
            producer.discard()
            self._producer = None
        post.journal.write(Completed(outcome, "send", post.process, op, acks=sending.acks, error=told))
        return outcome


class _SharedProducer:
    """What deliveries have in common that do not care which partition an input is from."""

    def moved(self, gained: bool, places: Sequence[TopicPartition]) -> None:
        """The producer is the same for every partition."""

    def parcels(self, parcel: OutputBatch) -> Sequence[OutputBatch]:
        """All of it at once."""
        return (parcel,)


class SendThenCommit(_SharedProducer):
    """A `Deliverer`: at least once."""

    def __init__(self, post: WorkerContext, *, idempotent: bool) -> None:
        self._post = post
        self._plain = PlainProducer(post, idempotent=idempotent and post.policy.idempotent)

    def open(self) -> None:
        """Have a producer."""
        self._plain.open()

    def deliver(self, parcel: OutputBatch) -> Outcome:
        """Send; and only once all is acknowledged move the offsets."""
        post = self._post
        reach = partial(post.control.pause_at, asked=parcel.asked, claims=parcel.claims)
        outcome = self._plain.send(parcel)
        if outcome is not Outcome.OK:
            keep_offsets(post, parcel.positions, "not every output was acknowledged")
            return outcome
        reach(WorkerStep.AFTER_SEND)
        outcome = commit_offsets(post, parcel.positions)
        if outcome is Outcome.OK:
            reach(WorkerStep.AFTER_COMMIT)
        return outcome


class CommitThenSend(_SharedProducer):
    """A `Deliverer`: at most once."""

    def __init__(self, post: WorkerContext) -> None:
        self._post = post
        self._plain = PlainProducer(post, idempotent=False, retries=False)

    def open(self) -> None:
        """Have a producer."""
        self._plain.open()

    def deliver(self, parcel: OutputBatch) -> Outcome:
        """Move the offsets; and only if that is known to have succeeded send, without a second try."""
        post = self._post
        reach = partial(post.control.pause_at, asked=parcel.asked, claims=parcel.claims)
        outcome = commit_offsets(post, parcel.positions)
        if outcome is Outcome.OK:
            reach(WorkerStep.AFTER_COMMIT)
            self._plain.send(parcel)
            reach(WorkerStep.AFTER_SEND)
        return outcome
