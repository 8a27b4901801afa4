"""What a worker does with a batch of outputs: the interface of its deliveries, and what they share."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from harness.clients.interface import (
    TRANSACTION_TIMEOUT_MS,
    Client,
    ClientError,
    ConsumerSettings,
    GroupConsumer,
    ProducerSettings,
)
from harness.clients.records import ClientRecord
from harness.databases.interface import Database
from harness.model.pipeline import TopicPartition
from harness.model.vocabulary import Outcome
from harness.record.events import Completed, Invoked
from harness.record.journal import Journal
from harness.record.naming import operation_name, partition_key, value_name
from harness.roles.batch_offsets import BatchOffsets
from harness.roles.control import Control
from harness.roles.sending import RecordSender
from harness.roles.transactions import STEP_TIMEOUT_S
from workloads.model.policy import RIGHT, Policy
from workloads.model.workload import Output

PROCESS_STRIDE = 1_000
"""After an info a worker goes on under a new process number, this much higher."""


@dataclass
class WorkerContext:
    """Where a worker stands: what it was given, and what changes as it goes on."""

    bootstrap: str
    client: Client
    policy: Policy
    journal: Journal
    control: Control
    consumer_settings: ConsumerSettings
    process: int
    store: Database | None = None  # that the pipeline writes beside Kafka
    compression: str = "none"
    largest_bytes: int | None = None  # of a record, where a run has large ones
    txn_timeout_ms: int = TRANSACTION_TIMEOUT_MS
    notes: str | None = None  # the topic for outputs that come of no input
    consumer: GroupConsumer = field(init=False)
    fenced: int = 0  # times that it was

    @property
    def producer_settings(self) -> ProducerSettings:
        """What its producers are told."""
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
    """An output, and the inputs that it comes from."""

    sources: Sequence[ClientRecord]
    output: Output

    @property
    def places(self) -> list[tuple[str, int, int]]:
        """Topic, partition and offset of each input."""
        return [(record.topic(), record.partition(), record.offset()) for record in self.sources]

    def as_send(self) -> list[object]:
        """As the journal announces it: with the digest of what must then stand in the log."""
        out, places = self.output, self.places
        crc = out.digest(places)
        named = (cell for topic, number, offset in places for cell in (partition_key(topic, number), offset))
        return [out.topic, out.output_name, crc, *named]


@dataclass(frozen=True)
class OutputBatch:
    """A batch on its way out."""

    outputs: Sequence[PendingOutput]
    positions: BatchOffsets
    intended_end: str  # how its transaction is to end: commit or abort
    preceding: str | None = (
        None  # an unusual transaction that goes before it: `workloads.loop.unusual.Beside`
    )
    overruns: bool = False  # its transaction is held until its time-out has passed
    row_claims: Mapping[str, tuple[int, int]] | None = None  # as `claims`, of inputs that are no range

    @property
    def claims_in_progress(self) -> Mapping[str, tuple[int, int]]:
        """What a fault is told that a worker has in hand."""
        return self.claims if self.row_claims is None else self.row_claims

    @property
    def claims(self) -> Mapping[str, tuple[int, int]]:
        """By partition, the first input and the offset to commit."""
        return self.positions.claims

    def by_partition(self) -> list["OutputBatch"]:
        """A parcel for each input partition."""
        parts = []
        for key, positions in self.positions.split_by_partition().items():
            outputs = [
                one
                for one in self.outputs
                if any(partition_key(topic, number) == key for topic, number, _ in one.places)
            ]
            parts.append(replace(self, outputs=outputs, positions=positions))
        return parts

    def without(self, taken: Callable[[Output], bool]) -> "OutputBatch":
        """The same without some outputs."""
        return replace(self, outputs=[one for one in self.outputs if not taken(one.output)])

    def only(self, taken: Callable[[Output], bool]) -> "OutputBatch":
        """These outputs alone."""
        return self.without(lambda out: not taken(out))

    def as_sends(self) -> list[list[object]]:
        """As the journal announces them."""
        return [one.as_send() for one in self.outputs]

    def send_to(self, sending: RecordSender, journal: Journal, op: int, policy: Policy = RIGHT) -> None:
        """Give every record to the client."""
        for n, one in enumerate(self.outputs):
            out = _with_defects(one.output, policy)
            headers = out.record_headers(value_name(journal.name, op, n), one.places)
            sending.send(n, out.topic, out.key, out.value, headers, out.timestamp_ms)


class Deliverer(Protocol):
    """A way of delivering."""

    def open(self) -> None:
        """Be ready for a batch."""
        ...

    def partitions_changed(self, gained: bool, places: Sequence[TopicPartition]) -> None:
        """Partitions came to this worker, or were taken away."""
        ...

    def split(self, output_batch: OutputBatch) -> Sequence[OutputBatch]:
        """What is delivered on its own."""
        ...

    def deliver(self, output_batch: OutputBatch) -> Outcome:
        """Send the outputs and move the group's offsets; say what became of it."""
        ...


def commit_offsets(context: WorkerContext, positions: BatchOffsets, op: int | None = None) -> Outcome:
    """Commit by the consumer, outside any transaction. `op`: the operation whose inputs they are."""
    outside = context.journal.number()
    context.journal.write(
        Invoked("commit-offsets", context.process, outside, claims=positions.claims, txn=op)
    )
    outcome, error_text = Outcome.OK, None
    try:
        metadata = operation_name(context.journal.name, outside if op is None else op)
        context.consumer.commit(positions.positions_to_commit(metadata))
    except ClientError as error:
        outcome, error_text = Outcome.INFO, str(error)
    context.journal.write(Completed(outcome, "commit-offsets", context.process, outside, error=error_text))
    return outcome


def record_uncommitted(context: WorkerContext, positions: BatchOffsets, why: str | None) -> None:
    """Write down that the offsets of these inputs are not committed, where a store did not take what came of them: the
    worker goes back to them.
    """
    op = context.journal.number()
    context.journal.write(Invoked("commit-offsets", context.process, op, claims=positions.claims))
    context.journal.write(Completed(Outcome.FAIL, "commit-offsets", context.process, op, error=why))


def _with_defects(out: Output, policy: Policy) -> Output:
    """An output as it is sent: other than the journal says, where a defect spoils it."""
    if policy.drops_headers:
        out = out._replace(headers=())
    if policy.null_as_empty and out.value is None:
        out = out._replace(value=b"")
    return out
