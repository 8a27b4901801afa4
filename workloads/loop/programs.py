"""The loop of the workload explore: programs of a few transactions, each on its own partition, ordered by the run.

A program is a text of parts. C commits the outputs and the offset of an input, A aborts them, and B aborts those of two
inputs. c and a do the same as C and A, but send the outputs of both topics at once. K sends the outputs of an input,
and then its worker is lost: the run kills it, or, if there are other workers, the worker only drops its producer. R
lets another worker take over: a new producer continues at the committed offset of the group.

After the last part and the release of what its rule has kept, the worker processes the inputs that are left. If the
group has another offset than the worker, another worker takes over first: so an offset that went back or forward has
the consequence that it would have at the next rebalance.

The worker waits for the response to each request before it sends the next one, so that the order of requests does not
depend on time. Before each step it notes the step and its time. At one step it can wait for the run.
"""

import time
from collections.abc import Sequence

from harness.clients.interface import (
    RETRY_S,
    Client,
    ClientError,
    ClientRecord,
    ConsumerSettings,
    GroupConsumer,
    PartitionOffset,
    ProducerSettings,
    as_input,
)
from harness.common.errors import WaitTimeout
from harness.databases.interface import Database
from harness.model.pipeline import TopicPartition
from harness.model.vocabulary import Outcome
from harness.processes.messages import CaseEnd, CaseOrder, Counts, Report
from harness.protocol.cases import OUTPUTS, OVER
from harness.record.events import ErrorNoted, Invoked
from harness.record.journal import Journal
from harness.record.naming import operation_name, value_name
from harness.roles.batch_offsets import COMMITTED_TIMEOUT_S, BatchOffsets
from harness.roles.control import Control
from harness.roles.transactions import ErrorHandling, Transaction, TransactionalProducer
from workloads.explore import INPUTS
from workloads.loop.delivery import PROCESS_STRIDE, OutputBatch, PendingOutput
from workloads.loop.reading import InputReader
from workloads.loop.worker import WorkerSettings
from workloads.model.policy import Delivery
from workloads.model.workload import WorkloadStage, pinned_id

MOST_TRANSACTIONS = 8
"""A case in which more transactions fail does not end."""
CALL_TIMEOUT_S = 10.0
"""How long a call is repeated."""
JOIN_S = 20.0
"""How long a member waits for its partitions."""
POLL_S = 0.05
"""How long a member waits for records that it never gets, while it takes part in rebalances."""


class ProgramWorker:
    """One worker that carries out the programs that the run orders."""

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
        self.client = client
        self.journal = journal
        self.control = control
        self.counts = Counts()
        consumer_settings = ConsumerSettings(
            settings.bootstrap, settings.group or "", journal.name, stage.promised, max_records=1
        )
        self.reader = InputReader(client, consumer_settings, journal, settings.process)
        self.group: GroupConsumer = client.unsubscribed_consumer(consumer_settings)
        self._joins = settings.delivery is Delivery.PROGRAMS_OF_MEMBERS
        self._consumer_settings = consumer_settings

    def run(self) -> None:
        """Carry out programs until the run stops the worker or replaces it."""
        self.join()
        self.control.report(Report(ready=True))
        while (order := self.control.next_case()) is not None:
            program = CaseProgram(self, order)  # if it ends with a kill, its producer stays open until then
            end = program.carry_out()
            self.control.report(Report(counts=self.counts, case=end))
        self.reader.close()
        self.group.close()

    def next_process(self) -> None:
        """Continue under another process number, and as another member of the group, as another worker would."""
        self.reader.process += PROCESS_STRIDE
        self.join()

    def join(self) -> None:
        """If workers are members of their group, join it, and leave it first if this worker is in it."""
        if not self._joins:
            return
        self.group.close()
        self.group = self.client.consumer(
            self._consumer_settings, self.stage.reads, MemberListener(), lambda error: None
        )
        self.keep_up()

    def keep_up(self) -> None:
        """If the worker is a member of its group, take part in a rebalance, and wait until it has partitions."""
        deadline_s = time.monotonic() + JOIN_S
        while self._joins:
            self.group.poll(1, POLL_S)
            if self.group.assigned():
                return
            if time.monotonic() > deadline_s:
                raise WaitTimeout("the group to assign partitions", JOIN_S, "none are assigned")
            self.control.listen()


class MemberListener:
    """The listener of a member. It reads nothing itself: a case names the partition that its worker reads."""

    def on_assigned(self, topic_partitions: Sequence[tuple[str, int]]) -> Sequence[PartitionOffset]:
        """Begin behind every input, so that no record is delivered."""
        return [PartitionOffset(topic, partition, INPUTS) for topic, partition in topic_partitions]

    def on_revoked(self, topic_partitions: Sequence[tuple[str, int]]) -> None:
        """Do nothing: no position is kept."""


class CaseProgram:
    """One case: a program on the inputs of one partition."""

    def __init__(self, worker: ProgramWorker, order: CaseOrder) -> None:
        self._worker = worker
        self._order = order
        self._stops = set(order.stops)
        (topic,) = worker.stage.reads
        self._partition: TopicPartition = (topic, order.number)
        self._steps: list[tuple[int, str]] = []
        self._transactions = order.begun
        settings = worker.settings
        self._producer = TransactionalProducer(
            worker.client,
            ProducerSettings(
                settings.bootstrap,
                txn_timeout_ms=settings.txn_timeout_ms,
                block_s=CALL_TIMEOUT_S,
                topics=worker.stage.writes,
            ),
            pinned_id(topic, order.number),
            worker.journal,
            worker.control,
            ErrorHandling(commit_timeout_s=CALL_TIMEOUT_S),
        )

    def carry_out(self) -> CaseEnd:
        """Run the program, then process the inputs that are left."""
        if self._order.begun:
            self._open()
            self._worker.reader.read_to[self._partition] = self._committed()
        self._worker.reader.assign_only([self._partition])
        self._open()
        for part in self._order.program:
            self._carry_out_part(part)
        if self._order.killed:
            return self._end()
        self._steps.append((time.monotonic_ns(), OVER))
        self._worker.control.wait_at(OVER)
        if self._committed() != self._position:
            self._replace_producer()
        while self._position < INPUTS and self._may_go_on:
            self._transact(1, "commit")
        self._producer.close()
        return self._end(INPUTS - self._position)

    def _end(self, left: int = 0) -> CaseEnd:
        errors = tuple(self._producer.lost_by)
        last = self._producer.last_error
        return CaseEnd(self._order.number, self._transactions, tuple(self._steps), errors, left, last)

    @property
    def _position(self) -> int:
        """The offset of the next input to process."""
        return self._worker.reader.read_to.get(self._partition, 0)

    @property
    def _may_go_on(self) -> bool:
        return self._transactions < MOST_TRANSACTIONS and not self._worker.control.stopping

    def _carry_out_part(self, part: str) -> None:
        """Repeat a part until it has done what it means to do. Without an input left, it has nothing to do."""
        if part == "R":
            self._replace_producer()
            return
        start = self._position
        while self._may_go_on and self._position < INPUTS:
            if part == "K":
                self._transact(1, None)
                if not self._order.killed:
                    self._replace_producer()
                return
            end = {"C": "commit", "A": "abort", "B": "abort"}[part.upper()]
            outcome = self._transact(2 if part == "B" else 1, end, at_once=part.islower())
            if self._position > start or (end == "abort" and outcome is Outcome.FAIL):
                return

    def _transact(self, inputs: int, end: str | None, *, at_once: bool = False) -> Outcome:
        """Process inputs in a transaction. With `end` None, its producer is lost before the end.

        With `at_once`, the outputs of all topics are sent before the first response.
        """
        worker = self._worker
        self._open()
        worker.keep_up()
        self._transactions += 1
        batch = self._poll(inputs)
        positions = BatchOffsets.of(batch)
        outputs = [
            PendingOutput((record,), out)
            for record in batch
            for out in worker.stage.transform(as_input(record))
        ]
        prepared = OutputBatch(outputs, positions, end or "commit")
        op = worker.journal.number()
        worker.journal.write(
            Invoked(
                "txn",
                worker.reader.process,
                op,
                asked=prepared.intended_end,
                transactional_id=self._producer.transactional_id,
                sends=prepared.as_sends(),
                claims=prepared.claims,
            )
        )
        with self._producer.transaction(op, worker.reader.process, len(outputs)) as txn:
            self._send_outputs(txn, prepared, op, at_once=at_once)
            if end is not None:
                self._send_offsets(txn, prepared, op)
                self._reach("end")
            if end == "commit":
                txn.commit(lambda: None, is_armed=False)
            elif end == "abort":
                txn.abort()
        worker.counts.end(txn.outcome, prepared.intended_end, len(batch))
        if txn.outcome is Outcome.OK:
            worker.reader.count(batch)
        elif txn.outcome is Outcome.FAIL and worker.settings.policy.rewind:
            worker.reader.seek_back()
        if txn.outcome is Outcome.INFO and end is not None:
            self._replace_producer()
        return txn.outcome

    def _send_outputs(self, txn: Transaction, batch: OutputBatch, op: int, *, at_once: bool) -> None:
        """Send the outputs of each topic, one after the other, or all at once."""
        worker = self._worker
        txn.begin()
        if at_once:
            self._reach(OUTPUTS)
        for topic in worker.stage.writes:
            if not at_once:
                self._reach(topic)
            for n, pending in enumerate(batch.outputs):
                out = pending.output
                if out.topic == topic:
                    headers = out.record_headers(
                        value_name(worker.journal.name, op, n), pending.input_positions
                    )
                    txn.send(n, topic, out.key, out.value, headers, partition=self._order.number)
                    if not at_once:
                        txn.flush()
        if at_once:
            txn.flush()

    def _send_offsets(self, txn: Transaction, batch: OutputBatch, op: int) -> None:
        worker = self._worker
        self._reach("offsets")
        metadata = operation_name(worker.journal.name, op)
        txn.send_offsets(batch.positions.positions_to_commit(metadata), worker.group.membership())

    def _open(self) -> None:
        if not self._producer.usable:
            self._reach("init", self._transactions + 1)
            self._producer.open(self._worker.reader.process)

    def _replace_producer(self) -> None:
        """Continue as another worker would: with a new producer, at the committed offset of the group."""
        self._producer.close()
        self._worker.next_process()
        self._open()
        reader = self._worker.reader
        reader.read_to[self._partition] = self._committed()
        reader.change_process(reader.process)
        reader.seek_back()

    def _committed(self) -> int:
        """Return the committed offset of the group."""
        while True:
            try:
                (position,) = self._worker.group.committed([self._partition], COMMITTED_TIMEOUT_S)
            except ClientError as error:
                if not self._may_go_on:
                    return self._position
                self._worker.journal.write(ErrorNoted(error=str(error)))
                self._worker.control.listen(RETRY_S)
            else:
                return position.offset or 0

    def _poll(self, inputs: int) -> list[ClientRecord]:
        """Poll this number of inputs, or those that are left."""
        batch: list[ClientRecord] = []
        inputs = min(inputs, INPUTS - self._position)
        while len(batch) < inputs and not self._worker.control.stopping:
            batch += self._worker.reader.poll()
            self._worker.control.listen()
        return batch

    def _reach(self, step: str, transaction: int | None = None) -> None:
        """Note a step. Wait there the first time if the run has ordered it."""
        name = f"{transaction or self._transactions}.{step}"
        self._steps.append((time.monotonic_ns(), name))
        if name in self._stops:
            self._stops.remove(name)
            self._worker.control.wait_at(name)
