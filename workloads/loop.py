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
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from harness.clients import librdkafka
from harness.clients.control import Control
from harness.clients.messages import Record, consume
from harness.clients.offsets import Positions
from harness.clients.producing import TransactionalProducer
from harness.history import Outcome, Step
from harness.record.journal import Journal
from harness.record.naming import digest, operation_name, output_headers, partition_key, value_name
from workloads.model import Output, Policy, Stage

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
    worker: str  # the slot: its name outlives a restart
    process: int
    txn_size: int
    abort_share: float
    seed: int
    policy: Policy


class Worker:
    """One worker of one stage."""

    def __init__(self, stage: Stage, settings: Settings, journal: Journal, control: Control) -> None:
        self.stage = stage
        self.settings = settings
        self.journal = journal
        self.control = control
        self.process = settings.process
        self.counts = Counts()
        self.rng = Random(f"{settings.seed}/{journal.name}")
        stable = settings.policy.stable_id
        self.transactional_id = settings.worker if stable else f"{journal.name}-{self.rng.getrandbits(64):x}"
        isolation = settings.policy.isolation.get(stage.name, stage.promised)
        self._consumer_settings = librdkafka.group_consumer(
            settings.bootstrap, stage.group, journal.name, isolation
        )
        self.consumer = self._new_consumer()
        self.stranger = None if settings.policy.member_metadata else Consumer(self._consumer_settings)
        self.producer = TransactionalProducer(settings.bootstrap, self.transactional_id, journal, control)

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
        batch = consume(self.consumer, self.settings.txn_size, 0.2, self._met)
        if not batch:
            return
        positions = Positions.of(batch)
        self._record_poll(call_ns, batch)
        self.control.reach(Step.AFTER_POLL, claims=positions.claims)
        outputs = [
            (message, self.stage.transform(message.key() or b"", message.value() or b"")) for message in batch
        ]
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
        op = self.journal.begin(
            "txn",
            self.process,
            {
                "asked": asked,
                "sends": [
                    [out.topic, out.slot, crc, partition_key(m.topic(), m.partition()), m.offset()]
                    for m, out, crc in planned
                ],
                "claims": positions.claims,
            },
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
                txn.send_offsets(positions.to_commit(metadata), member.consumer_group_metadata())
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
            except KafkaException as error:
                self.journal.write("note", {"error": librdkafka.words(librdkafka.error_of(error))})
                self.consumer.close()
                self.consumer = self._new_consumer()

    def _commit_outside(self, op: int, positions: Positions) -> None:
        """The defect: offsets committed by the consumer, after the transaction."""
        claims = {"claims": positions.claims, "txn": op}
        outside = self.journal.begin("commit-offsets", self.process, claims)
        done: dict[str, Any] = {"f": "commit-offsets", "process": self.process, "op": outside}
        try:
            metadata = operation_name(self.journal.name, op)
            self.consumer.commit(offsets=positions.to_commit(metadata), asynchronous=False)
            self.journal.write(Outcome.OK, done)
        except KafkaException as error:
            self.journal.write(Outcome.INFO, done | {"error": librdkafka.words(librdkafka.error_of(error))})

    def _new_consumer(self) -> Consumer:
        consumer = Consumer(self._consumer_settings)
        consumer.subscribe(
            [self.stage.in_topic],
            on_assign=partial(self._assigned, True),
            on_revoke=partial(self._assigned, False),
            on_lost=partial(self._assigned, False),
        )
        return consumer

    def _assigned(self, gained: bool, _: Consumer, partitions: list[TopicPartition]) -> None:
        keys = [partition_key(p.topic, p.partition) for p in partitions]
        self.journal.write("assign", {"process": self.process, "gained": gained, "partitions": keys})

    def _record_poll(self, call_ns: int, batch: Sequence[Record]) -> None:
        event = {"f": "poll", "process": self.process, "op": self.journal.number(), "call": call_ns}
        self.journal.write(Outcome.OK, event | {"records": Positions.delivered(batch)})

    def _met(self, error: KafkaError) -> None:
        """A consumer's error is noted; after a fatal one there is a new consumer."""
        self.journal.write("note", {"error": librdkafka.words(error)})
        if error.fatal():
            self.consumer.close()
            self.consumer = self._new_consumer()


def digest_of(message: Record, output: Output) -> int:
    """What the output of an input must hold, without the name of the attempt."""
    source = (message.topic(), message.partition(), message.offset())
    return digest(output.key, output.value, output_headers("", output.slot, [source]))
