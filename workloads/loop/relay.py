"""The relay of an outbox: take pending rows, publish them in a Kafka transaction, and mark them as done.

One database transaction locks the rows until they are marked. A relay skips rows that another relay has locked. The
Kafka transaction commits before the database transaction. After a crash between the two, the rows are published again.
So each row is published at least once, and the consumer must apply it only once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from harness.clients.interface import RETRY_S, Client, ConsumerSettings, as_input
from harness.databases.interface import DatabaseError, InputTable, TableRow
from harness.model.vocabulary import VALUE_HEADER, Isolation, Outcome, WorkerStep
from harness.processes.messages import Counts, Report
from harness.record.events import ErrorNoted, Polled
from harness.record.journal import Journal
from harness.record.naming import Headers, partition_key
from harness.roles.batch_offsets import BatchOffsets
from harness.roles.control import Control
from workloads.loop.delivery import PROCESS_STRIDE, OutputBatch, PendingOutput, WorkerContext
from workloads.loop.transactional import TransactionSender
from workloads.loop.worker import WorkerSettings
from workloads.model.workload import WorkloadStage

IDLE_S = 0.05
"""The pause of a relay when there are no rows to publish."""
MAX_ROWS_AFTER_POSITION = 500
"""The largest number of rows that the defect `relay-skips` takes at once. It is large, so that the relay keeps up."""
NO_OFFSETS = BatchOffsets({}, {})
"""A relay commits no offsets."""


@dataclass(frozen=True)
class RowRecord:
    """A row as a `ClientRecord`: its table is the topic, and its number is the offset."""

    table: str
    row: TableRow

    def topic(self) -> str:
        return self.table

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self.row.number

    def key(self) -> bytes | None:
        return self.row.key

    def value(self) -> bytes | None:
        return self.row.content

    def headers(self) -> Headers | None:
        """Return the name of the attempt that wrote the row."""
        return [(VALUE_HEADER, self.row.value.encode())]

    def timestamp(self) -> tuple[int, int]:
        return (0, 0)


class Relay:
    """One worker of a stage that reads a table."""

    def __init__(
        self,
        stage: WorkloadStage,
        settings: WorkerSettings,
        client: Client,
        journal: Journal,
        control: Control,
        inputs: InputTable,
    ) -> None:
        assert settings.transactional_id is not None, "a relay publishes in transactions"
        self.stage = stage
        self.settings = settings
        self.journal = journal
        self.control = control
        self.counts = Counts()
        self.rng = Random(f"{settings.seed}/{journal.name}")
        self.context = WorkerContext(
            bootstrap=settings.bootstrap,
            client=client,
            policy=replace(settings.policy, offsets="none"),
            journal=journal,
            control=control,
            consumer_settings=ConsumerSettings(
                settings.bootstrap, "", journal.name, Isolation.READ_COMMITTED
            ),
            process=settings.process,
            compression=settings.compression,
            largest_bytes=settings.largest_bytes,
            txn_timeout_ms=settings.txn_timeout_ms,
            notes=stage.notes,
        )
        self._inputs = inputs
        (self._table,) = stage.reads
        self._sender = TransactionSender(self.context)
        self._producer = self._sender.producer(settings.transactional_id)

    def run(self) -> None:
        """Work until the run stops the relay or replaces it."""
        self._producer.open(self.context.process)
        self.control.report(Report(ready=True))
        while not self.control.stopping and not self.control.replaced:
            self.control.listen()
            self.turn()
        self._inputs.close()

    def turn(self) -> None:
        """Run one batch: take rows, publish them, mark them."""
        self.control.pause_at(WorkerStep.BEFORE_POLL, intended_end="commit")
        try:
            self._relay()
        except DatabaseError as error:  # the rows are pending again, or another relay has them
            self.journal.write(ErrorNoted(error=str(error)))
            self.control.listen(RETRY_S)
        finally:
            self._inputs.roll_back()

    def _relay(self) -> None:
        policy, max_records, call_ns = self.settings.policy, self.settings.txn_size, self.journal.now_ns()
        rows = (
            self._inputs.take_after_position(MAX_ROWS_AFTER_POSITION)
            if policy.takes_after_last
            else self._inputs.take(max_records)
        )
        if not rows:
            self._inputs.roll_back()  # so that no transaction is open during the pause
            self.control.listen(IDLE_S)
            return
        batch = [RowRecord(self._table, row) for row in rows]
        self.journal.write(
            Polled(
                self.context.process, self.journal.number(), call_ns, BatchOffsets.delivered_records(batch)
            )
        )
        row_claims = {partition_key(self._table, 0): (rows[0].number, rows[-1].number + 1)}
        intended_end = "abort" if self.rng.random() < self.settings.abort_share else "commit"
        self.control.pause_at(WorkerStep.AFTER_POLL, intended_end=intended_end, claims=row_claims)
        outputs = [PendingOutput((row,), out) for row in batch for out in self.stage.transform(as_input(row))]
        self.control.pause_at(WorkerStep.AFTER_TRANSFORM, intended_end=intended_end, claims=row_claims)
        if policy.marks_before_send:
            self._mark(rows)
        shares = self.settings.shares
        preceding = shares.draw_preceding(self.rng, self.stage.notes)
        overruns = intended_end == "commit" and shares.overruns(self.rng)
        output_batch = OutputBatch(outputs, NO_OFFSETS, intended_end, preceding, overruns, row_claims)
        outcome = self._sender.transact(self._producer, output_batch)
        self._count(outcome, intended_end, len(rows))
        if outcome is Outcome.OK and not policy.marks_before_send:
            self._mark(rows)

    def _mark(self, rows: Sequence[TableRow]) -> None:
        if self.settings.policy.takes_after_last:
            self._inputs.move_position(rows[-1].number)
        else:
            self._inputs.mark([row.number for row in rows])
        self._inputs.commit()

    def _count(self, outcome: Outcome, intended_end: str, inputs: int) -> None:
        self.counts.end(outcome, intended_end, inputs)
        if outcome is Outcome.INFO:
            self.context.process += PROCESS_STRIDE
        self.counts.fenced = self.context.fenced
        self.control.report(Report(counts=self.counts))
