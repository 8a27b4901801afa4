"""How a worker delivers a batch of outputs: the interface of deliverers, and the code that they share."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from harness.clients.interface import (
    TRANSACTION_TIMEOUT_MS,
    Client,
    ClientError,
    ClientRecord,
    ConsumerSettings,
    GroupConsumer,
    ProducerSettings,
)
from harness.databases.interface import Database
from harness.model.pipeline import TopicPartition
from harness.model.vocabulary import Outcome
from harness.record.events import Completed, Invoked
from harness.record.journal import Journal
from harness.record.naming import operation_name, partition_key, value_name
from harness.roles.batch_offsets import BatchOffsets
from harness.roles.control import Control
from harness.roles.transactions import STEP_TIMEOUT_S, RecordSender
from workloads.model.policy import CORRECT, Policy
from workloads.model.workload import Output

PROCESS_STRIDE = 1_000
"""After an outcome of info, a worker adds this to its process number."""


@dataclass
class WorkerContext:
    """The settings and shared state of one worker."""

    bootstrap: str
    client: Client
    policy: Policy
    journal: Journal
    control: Control
    consumer_settings: ConsumerSettings
    process: int
    store: Database | None = None  # the database that the pipeline uses besides Kafka
    compression: str = "none"
    largest_bytes: int | None = None  # the largest record; None: the client's default limit
    txn_timeout_ms: int = TRANSACTION_TIMEOUT_MS
    notes: str | None = None  # the topic for outputs without an input
    consumer: GroupConsumer = field(init=False)
    fenced: int = 0  # how often a producer of this worker was fenced

    @property
    def producer_settings(self) -> ProducerSettings:
        """Settings for the producers of this worker."""
        policy = self.policy
        return ProducerSettings(
            self.bootstrap,
            acks=policy.acks,
            largest_bytes=policy.largest_bytes or self.largest_bytes,
            compression=self.compression,
            txn_timeout_ms=self.txn_timeout_ms,
            block_s=min(STEP_TIMEOUT_S, policy.handling.commit_timeout_s),
        )


@dataclass(frozen=True)
class PendingOutput:
    """An output and the inputs that it comes from."""

    sources: Sequence[ClientRecord]
    output: Output

    @property
    def input_positions(self) -> list[tuple[str, int, int]]:
        """Topic, partition and offset of each input."""
        return [(record.topic(), record.partition(), record.offset()) for record in self.sources]

    def as_send(self) -> list[object]:
        """Return the entry for the journal.

        It has the topic, the output name and the digest of the expected log record, then the partition and the offset
        of each input.
        """
        out, input_positions = self.output, self.input_positions
        crc = out.digest(input_positions)
        sources = (
            cell
            for topic, number, offset in input_positions
            for cell in (partition_key(topic, number), offset)
        )
        return [out.topic, out.output_name, crc, *sources]


@dataclass(frozen=True)
class OutputBatch:
    """The outputs of a batch of inputs, ready for delivery."""

    outputs: Sequence[PendingOutput]
    positions: BatchOffsets
    intended_end: str  # how its transaction must end: commit or abort
    preceding: str | None = (
        None  # an `ExtraContents`, for an extra transaction to commit before that of this batch
    )
    overruns: bool = False  # keep its transaction open until its time-out has passed
    row_claims: Mapping[str, tuple[int, int]] | None = None  # like `claims`, for rows of a table

    @property
    def claims_in_progress(self) -> Mapping[str, tuple[int, int]]:
        """The claims that the worker reports, so that a fault can wait until others have processed them."""
        return self.claims if self.row_claims is None else self.row_claims

    @property
    def claims(self) -> Mapping[str, tuple[int, int]]:
        """By partition, the first input and the offset to commit."""
        return self.positions.claims

    def by_partition(self) -> list["OutputBatch"]:
        """Return one batch for each input partition."""
        parts = []
        for key, positions in self.positions.split_by_partition().items():
            outputs = [
                pending
                for pending in self.outputs
                if any(partition_key(topic, number) == key for topic, number, _ in pending.input_positions)
            ]
            parts.append(replace(self, outputs=outputs, positions=positions))
        return parts

    def without(self, matches: Callable[[Output], bool]) -> "OutputBatch":
        """Return the batch without the outputs for which `matches` is true."""
        return replace(self, outputs=[pending for pending in self.outputs if not matches(pending.output)])

    def only(self, matches: Callable[[Output], bool]) -> "OutputBatch":
        """Return the batch with only the outputs for which `matches` is true."""
        return self.without(lambda out: not matches(out))

    def as_sends(self) -> list[list[object]]:
        """Return the entries for the journal, one for each output."""
        return [pending.as_send() for pending in self.outputs]

    def send_to(self, sending: RecordSender, journal: Journal, op: int, policy: Policy = CORRECT) -> None:
        """Pass every record to the client. A defect can change a record after the journal has recorded it."""
        for n, pending in enumerate(self.outputs):
            out = _with_defects(pending.output, policy)
            headers = out.record_headers(value_name(journal.name, op, n), pending.input_positions)
            sending.send(n, out.topic, out.key, out.value, headers, out.timestamp_ms)


class Deliverer(Protocol):
    """A way to deliver batches."""

    def open(self) -> None:
        """Prepare for the first batch."""
        ...

    def partitions_changed(self, gained: bool, topic_partitions: Sequence[TopicPartition]) -> None:
        """Handle partitions that this worker gained or lost."""
        ...

    def split(self, output_batch: OutputBatch) -> Sequence[OutputBatch]:
        """Split a batch into the parts that are delivered one by one."""
        ...

    def deliver(self, output_batch: OutputBatch) -> Outcome:
        """Send the outputs, commit the offsets, and return the outcome."""
        ...


def commit_offsets(context: WorkerContext, positions: BatchOffsets, op: int | None = None) -> Outcome:
    """Commit offsets through the consumer, outside any transaction.

    `op` is the operation that processed these inputs; None: there is no such operation.
    """
    op_outside = context.journal.number()
    context.journal.write(
        Invoked("commit-offsets", context.process, op_outside, claims=positions.claims, txn=op)
    )
    outcome, error_text = Outcome.OK, None
    try:
        metadata = operation_name(context.journal.name, op_outside if op is None else op)
        context.consumer.commit(positions.positions_to_commit(metadata))
    except ClientError as error:
        outcome, error_text = Outcome.INFO, str(error)
    context.journal.write(Completed(outcome, "commit-offsets", context.process, op_outside, error=error_text))
    return outcome


def record_uncommitted(context: WorkerContext, positions: BatchOffsets, reason: str | None) -> None:
    """Record in the journal that the offsets of these inputs were not committed, because their outputs failed.

    The worker will consume the inputs again.
    """
    op = context.journal.number()
    context.journal.write(Invoked("commit-offsets", context.process, op, claims=positions.claims))
    context.journal.write(Completed(Outcome.FAIL, "commit-offsets", context.process, op, error=reason))


def _with_defects(out: Output, policy: Policy) -> Output:
    """Return the output as it is sent. A defect makes it differ from the journal."""
    if policy.drops_headers:
        out = out._replace(headers=())
    if policy.null_as_empty and out.value is None:
        out = out._replace(value=b"")
    return out
