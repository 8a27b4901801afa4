"""Exactly once into a database: by the position of the inputs, or by a unique key.

Kafka's transactions do not cover a database. `ProjectionDelivery` writes the rows, and the position of their inputs, in
one database transaction. A worker that gains a partition reads the position from the database and skips inputs below
it. A transaction moves the position only if it still has the value that the worker knows, so the transaction of a
zombie is rejected. The worker also commits the group's offsets, so that the lag of the group can be observed.

`KeyedDelivery` gives each row a key that is derived from its input. Its loop is that of at-least-once: write the rows,
then commit the group's offsets. An input can be consumed again after a crash between the two, or because the topic has
it twice. Then its key exists already, and nothing changes. The key is made from the source header of the input, which
names the outbox row. It is not made from the position of the input itself. So two records of one outbox row have one
effect.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from harness.clients.interface import RETRY_S, ClientRecord
from harness.databases.interface import (
    CommitUnknown,
    Database,
    DatabaseError,
    DatabaseTransaction,
    SideEffect,
)
from harness.model.pipeline import TopicPartition
from harness.model.vocabulary import SOURCE_HEADER, Outcome, WorkerStep
from harness.record.events import REFUSED, Ack, Completed, Invoked
from harness.record.naming import Headers, header, output_headers, parse_sources, value_name
from workloads.loop.delivery import (
    OutputBatch,
    PendingOutput,
    WorkerContext,
    commit_offsets,
    record_uncommitted,
)


def store_of(context: WorkerContext) -> Database:
    """Return the database of a pipeline that has one."""
    assert context.store is not None, "this worker writes to a database, but it has no database"
    return context.store


def effect_of(context: WorkerContext, op: int, n: int, output: PendingOutput) -> SideEffect:
    """Return the row for an output to a table."""
    value, out = value_name(context.journal.name, op, n), output.output
    sources = header(output_headers(value, out.output_name, output.input_positions), SOURCE_HEADER) or ""
    return SideEffect(out.topic, value, out.output_name, sources, out.key, out.value)


class ProjectionDelivery:
    """A `Deliverer` that writes to a database. `states` is the table that counts the changes of each key, if any."""

    def __init__(self, context: WorkerContext, states: str | None) -> None:
        self._context = context
        self._store = store_of(context)
        self._states = states
        self._group = context.consumer_settings.group
        self._stored_positions: dict[
            TopicPartition, int | None
        ] = {}  # the positions last read from the database

    def open(self) -> None:
        pass  # the database is open already

    def partitions_changed(self, gained: bool, topic_partitions: Sequence[TopicPartition]) -> None:
        """Forget the positions, so that they are read from the database again."""
        for topic_partition in topic_partitions:
            self._stored_positions.pop(topic_partition, None)

    def split(self, output_batch: OutputBatch) -> Sequence[OutputBatch]:
        return (output_batch,)

    def deliver(self, output_batch: OutputBatch) -> Outcome:
        """Write the new rows and move the position, in one database transaction. Then commit the group's offsets."""
        context = self._context
        op = context.journal.number()
        try:
            self._load_positions(output_batch.positions.partitions.values())
        except DatabaseError as error:
            context.journal.write(Invoked("send", context.process, op))
            context.journal.write(Completed(Outcome.FAIL, "send", context.process, op, error=str(error)))
            record_uncommitted(context, output_batch.positions, str(error))
            context.control.listen(RETRY_S)
            return Outcome.FAIL
        new_outputs = OutputBatch(
            [pending for pending in output_batch.outputs if self._is_new(pending)],
            output_batch.positions,
            output_batch.intended_end,
        )
        reach = partial(
            context.control.pause_at, intended_end=output_batch.intended_end, claims=output_batch.claims
        )
        context.journal.write(Invoked("send", context.process, op, sends=new_outputs.as_sends()))
        outcome, error_text = Outcome.OK, None
        try:
            with self._store.transaction() as transaction:
                for n, pending in enumerate(new_outputs.outputs):
                    self._apply(transaction, op, n, pending)
                if self._stores_position:
                    self._move_positions(transaction, new_outputs)
                reach(WorkerStep.AFTER_SEND)
        except CommitUnknown as error:
            outcome, error_text = Outcome.INFO, str(error)
        except DatabaseError as error:
            outcome, error_text = Outcome.FAIL, str(error)
            context.control.listen(RETRY_S)
        acks = [(0, None)] * len(new_outputs.outputs) if outcome is Outcome.OK else None
        context.journal.write(Completed(outcome, "send", context.process, op, acks=acks, error=error_text))
        if outcome is not Outcome.OK:
            self._stored_positions.clear()
            record_uncommitted(context, output_batch.positions, error_text)
            return outcome
        for key, topic_partition in (
            output_batch.positions.partitions.items() if self._stores_position else ()
        ):
            self._stored_positions[topic_partition] = max(
                self._stored_positions[topic_partition] or 0, output_batch.claims[key][1]
            )
        reach(WorkerStep.AFTER_COMMIT)
        return commit_offsets(context, output_batch.positions)

    @property
    def _stores_position(self) -> bool:
        """Whether the database stores the position of the inputs."""
        return self._context.policy.stores_position

    def _load_positions(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Read the positions that are not known yet. Raises `DatabaseError`."""
        for topic_partition in topic_partitions:
            if topic_partition not in self._stored_positions:
                self._stored_positions[topic_partition] = (
                    self._store.position(self._group, topic_partition) if self._stores_position else None
                )

    def _is_new(self, pending: PendingOutput) -> bool:
        return all(
            offset >= (self._stored_positions[topic, number] or 0)
            for topic, number, offset in pending.input_positions
        )

    def _apply(self, transaction: DatabaseTransaction, op: int, n: int, pending: PendingOutput) -> None:
        transaction.add(effect_of(self._context, op, n, pending))
        if self._states is not None and pending.output.key is not None:
            transaction.change(self._states, pending.output.key, pending.output.value)

    def _move_positions(self, transaction: DatabaseTransaction, output_batch: OutputBatch) -> None:
        """Move the positions forward, never back."""
        for key, topic_partition in output_batch.positions.partitions.items():
            old, (_, new) = self._stored_positions[topic_partition], output_batch.claims[key]
            if new > (old or 0):
                transaction.advance(self._group, topic_partition, old, new)


@dataclass(frozen=True)
class InputOrigin:
    """The source of an input, as a `ClientRecord`. Only its topic, partition and offset are known."""

    position: tuple[str, int, int]

    def topic(self) -> str:
        return self.position[0]

    def partition(self) -> int:
        return self.position[1]

    def offset(self) -> int:
        return self.position[2]

    def key(self) -> bytes | None:
        return None

    def value(self) -> bytes | None:
        return None

    def headers(self) -> Headers | None:
        return None

    def timestamp(self) -> tuple[int, int]:
        return (0, 0)


class KeyedDelivery:
    """A `Deliverer` that writes each row once, by a unique key."""

    def __init__(self, context: WorkerContext) -> None:
        self._context = context
        self._store = store_of(context)

    def open(self) -> None:
        pass  # the database is open already

    def partitions_changed(self, gained: bool, topic_partitions: Sequence[TopicPartition]) -> None:
        pass  # any owner can write the rows, because a row is never written twice

    def split(self, output_batch: OutputBatch) -> Sequence[OutputBatch]:
        return (output_batch,)

    def deliver(self, output_batch: OutputBatch) -> Outcome:
        """Write the rows that the database does not have, then commit the offsets."""
        context, outputs = self._context, [_with_origins(pending) for pending in output_batch.outputs]
        op = context.journal.number()
        reach = partial(
            context.control.pause_at, intended_end=output_batch.intended_end, claims=output_batch.claims
        )
        context.journal.write(
            Invoked("send", context.process, op, sends=[pending.as_send() for pending in outputs])
        )
        outcome, error_text = Outcome.OK, None
        acks: list[Ack] = []
        try:
            with self._store.transaction() as work:
                added = [
                    work.add_once(effect_of(context, op, n, pending)) for n, pending in enumerate(outputs)
                ]
                acks = [(0, None) if new else REFUSED for new in added]
                reach(WorkerStep.AFTER_SEND)
        except CommitUnknown as error:
            outcome, error_text = Outcome.INFO, str(error)
        except DatabaseError as error:
            outcome, error_text = Outcome.FAIL, str(error)
            context.control.listen(RETRY_S)
        known_acks = acks if outcome is Outcome.OK else None
        context.journal.write(
            Completed(outcome, "send", context.process, op, acks=known_acks, error=error_text)
        )
        if outcome is not Outcome.OK:
            record_uncommitted(context, output_batch.positions, error_text)
            return outcome
        reach(WorkerStep.AFTER_COMMIT)
        return commit_offsets(context, output_batch.positions)


def _with_origins(pending: PendingOutput) -> PendingOutput:
    """Return the output with the sources of its inputs in place of its inputs."""
    return PendingOutput(
        [origin for record in pending.sources for origin in _origins(record)], pending.output
    )


def _origins(record: ClientRecord) -> list[ClientRecord]:
    return [InputOrigin(position) for position in parse_sources(header(record.headers(), SOURCE_HEADER))]
