"""The consume-transform-produce loop: one transaction for each batch of inputs.

It is the loop that Kafka's documentation asks for: offsets sent within the transaction with the
group's metadata (KIP-447), abort and rewind after an abortable error, a new producer after a fatal
one, and an honest `info` when the outcome of a commit is not known. A `Policy` makes it wrong on
purpose.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from random import Random

from harness.clients.control import Control
from harness.clients.interface import Client, ClientError, ConsumerSettings, Failure, GroupConsumer, Position
from harness.clients.offsets import Positions
from harness.clients.records import Record, as_input
from harness.clients.transactions import TransactionalProducer
from harness.history import Outcome, Step
from harness.record.events import Assigned, Completed, Invoked, Noted, Polled
from harness.record.journal import Journal
from harness.record.naming import digest, operation_name, output_headers, partition_key, value_name
from workloads.model import Output, Stage
from workloads.policy import Policy

PROCESS_STRIDE = 1_000
"""After an info a worker goes on under a new process number, this much higher."""


@dataclass
class Counts:
    """What a worker has done so far; told to the run after each transaction."""

    inputs: int = 0
    committed: int = 0
    aborted: int = 0
    failed: int = 0
    info: int = 0
    fenced: int = 0


@dataclass(frozen=True)
class Settings:
    """What one worker is told at its start."""

    bootstrap: str
    group: str
    transactional_id: str  # it outlives a restart
    process: int
    txn_size: int
    abort_share: float
    seed: int
    policy: Policy
    place: int = 0  # which stage of the workload it is, from 0


class Worker:
    """One worker of one stage."""

    def __init__(
        self, stage: Stage, settings: Settings, client: Client, journal: Journal, control: Control
    ) -> None:
        self.stage = stage
        self.settings = settings
        self.client = client
        self.journal = journal
        self.control = control
        self.process = settings.process
        self.counts = Counts()
        self.rng = Random(f"{settings.seed}/{journal.name}")
        policy = settings.policy
        own = (
            settings.transactional_id if policy.stable_id else f"{journal.name}-{self.rng.getrandbits(64):x}"
        )
        self._consumer_settings = ConsumerSettings(
            settings.bootstrap, settings.group, journal.name, policy.isolation(settings.place, stage.promised)
        )
        self.consumer = self._new_consumer()
        self.stranger = None if policy.member_metadata else client.stranger(self._consumer_settings)
        self.producer = TransactionalProducer(client, settings.bootstrap, own, journal, control)

    def run(self) -> None:
        """Work until told to stop, or until fenced and replaced."""
        self.producer.open(self.process)
        self.control.tell(ready=True)
        while not self.control.stopping and not self.control.replaced:
            self.control.listen()
            self.turn()
        self.consumer.close()

    def turn(self) -> None:
        """One batch: poll, transform, transact."""
        self.control.reach(Step.BEFORE_POLL)
        call_ns = self.journal.now_ns()
        batch = self.consumer.poll(self.settings.txn_size, 0.2)
        if self._dead:
            self.consumer.close()
            self.consumer = self._new_consumer()
        if not batch:
            return
        positions = Positions.of(batch)
        self._record_poll(call_ns, batch)
        self.control.reach(Step.AFTER_POLL, claims=positions.claims)
        outputs = [(message, self.stage.transform(as_input(message))) for message in batch]
        self.control.reach(Step.AFTER_TRANSFORM, claims=positions.claims)
        asked = "abort" if self.rng.random() < self.settings.abort_share else "commit"
        outcome = self.transact(outputs, positions, asked)
        self._after(outcome, asked, positions, len(batch))

    def transact(
        self, outputs: Sequence[tuple[Record, Sequence[Output]]], positions: Positions, asked: str
    ) -> Outcome:
        """Send the outputs and the offsets in one transaction, and end it as asked."""
        self.producer.open(self.process)
        if not self.producer.usable:  # told to stop before there was one: nothing was done
            return Outcome.FAIL
        planned = [(m, out, digest_of(m, out)) for m, outs in outputs for out in outs]
        op = self.journal.number()
        self.journal.write(
            Invoked(
                "txn",
                self.process,
                op,
                asked=asked,
                transactional_id=self.producer.transactional_id,
                sends=[
                    [out.topic, out.slot, crc, partition_key(m.topic(), m.partition()), m.offset()]
                    for m, out, crc in planned
                ],
                claims=positions.claims,
            )
        )
        reach = partial(self.control.reach, asked=asked, claims=positions.claims)
        with self.producer.transaction(op, self.process, len(planned)) as txn:
            for n, (m, out, _) in enumerate(planned):
                name = value_name(self.journal.name, op, n)
                headers = output_headers(name, out.slot, [(m.topic(), m.partition(), m.offset())])
                txn.send(n, out.topic, out.key, out.value, headers)
            txn.flush()
            reach(Step.AFTER_SEND)
            if self.settings.policy.offsets == "in-transaction":
                member = self.stranger or self.consumer
                metadata = operation_name(self.journal.name, op)
                txn.send_offsets(positions.to_commit(metadata), member.membership())
                reach(Step.AFTER_OFFSETS)
            if asked == "abort":
                txn.abort()
            else:
                reach(Step.BEFORE_COMMIT)
                txn.commit(
                    partial(reach, Step.WHILE_COMMITTING), self.control.is_armed(Step.WHILE_COMMITTING)
                )
        if txn.outcome is Outcome.OK:
            reach(Step.AFTER_COMMIT)
            if self.settings.policy.offsets == "after-commit":
                self._commit_outside(op, positions)
        if txn.fenced:
            self.counts.fenced += 1
        return txn.outcome

    def _after(self, outcome: Outcome, asked: str, positions: Positions, inputs: int) -> None:
        """Count, and put the consumer where the group's offsets now stand."""
        if outcome is Outcome.OK:
            self.counts.committed += 1
            self.counts.inputs += inputs
        elif outcome is Outcome.FAIL:
            self.counts.aborted += asked == "abort"
            self.counts.failed += asked != "abort"
        else:
            self.counts.info += 1
            self.process += PROCESS_STRIDE
        self.control.tell(counts=vars(self.counts))
        if outcome is not Outcome.OK and self.settings.policy.rewind:
            known = positions.firsts if outcome is Outcome.FAIL else None
            try:
                positions.rewind(self.consumer, known)
            except ClientError as error:
                self.journal.write(Noted(error=str(error)))
                self.consumer.close()
                self.consumer = self._new_consumer()

    def _commit_outside(self, op: int, positions: Positions) -> None:
        """The defect: offsets committed by the consumer, after the transaction."""
        outside = self.journal.number()
        self.journal.write(Invoked("commit-offsets", self.process, outside, claims=positions.claims, txn=op))
        outcome, told = Outcome.OK, None
        try:
            metadata = operation_name(self.journal.name, op)
            self.consumer.commit(positions.to_commit(metadata))
        except ClientError as error:
            outcome, told = Outcome.INFO, str(error)
        self.journal.write(Completed(outcome, "commit-offsets", self.process, outside, error=told))

    def _new_consumer(self) -> GroupConsumer:
        self._dead = False
        return self.client.consumer(self._consumer_settings, self.stage.reads, self._moved, self._met)

    def _moved(self, gained: bool, positions: Sequence[Position]) -> None:
        keys = [partition_key(place.topic, place.partition) for place in positions]
        starts = [place.offset for place in positions] if gained else None
        self.journal.write(Assigned(self.process, gained, keys, starts))

    def _record_poll(self, call_ns: int, batch: Sequence[Record]) -> None:
        op = self.journal.number()
        self.journal.write(Polled(self.process, op, call_ns, Positions.delivered(batch)))

    def _met(self, error: ClientError) -> None:
        """A consumer's error is noted; after a fatal one there is a new consumer."""
        self.journal.write(Noted(error=str(error)))
        self._dead = self._dead or error.failure in (Failure.FATAL, Failure.FENCED)


def digest_of(message: Record, output: Output) -> int:
    """What the output of an input must hold, without the name of the attempt."""
    source = (message.topic(), message.partition(), message.offset())
    return digest(output.key, output.value, output_headers("", output.slot, [source]))
